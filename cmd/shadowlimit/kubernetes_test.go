package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/alerts"
	"github.com/shadowlimit/shadowlimit/dashboards"
)

// resource is what Kubernetes reads of an exported file.
type resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	Data map[string]string
}

func resources(t *testing.T, k kubernetes, files fs.FS, runbook string) (list []resource) {
	t.Helper()
	dir := t.TempDir()
	convert, err := k.writer(k.kind, runbook)
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	if err := (export{files: files, convert: convert, dir: dir}).write(streams{out: &out, err: &talk}); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(out.String()) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var o resource
		if err := yaml.Unmarshal(text, &o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		t.Fatal("nothing is written")
	}
	return list
}

func TestPrometheusRule(t *testing.T) {
	o := resources(t, prometheusRule, alerts.Rules, "https://wiki/runbook")[0]
	if o.APIVersion != "monitoring.coreos.com/v1" || o.Kind != "PrometheusRule" || o.Metadata.Name != "shadowlimit" {
		t.Errorf("a %s of %s, name %q", o.Kind, o.APIVersion, o.Metadata.Name)
	}

	found := 0
	for _, g := range o.Spec.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			found++
			if url := r.Annotations["runbook_url"]; url != "https://wiki/runbook#"+strings.ToLower(r.Alert) {
				t.Errorf("%s links to %s", r.Alert, url)
			}
		}
	}
	if found != 12 {
		t.Errorf("%d alerts, want 12", found)
	}
}

func TestConfigMap(t *testing.T) {
	list := resources(t, configMap, dashboards.Files, alerts.Runbook)
	if len(list) != 3 {
		t.Errorf("%d resources, want one for each board", len(list))
	}
	for _, o := range list {
		if o.APIVersion != "v1" || o.Kind != "ConfigMap" || !strings.HasPrefix(o.Metadata.Name, "shadowlimit-") ||
			o.Metadata.Labels["grafana_dashboard"] != "1" || len(o.Data) != 1 {
			t.Errorf("%s %s %v with %d files", o.Kind, o.APIVersion, o.Metadata, len(o.Data))
		}
		for file, text := range o.Data {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", file)
			}
		}
	}
}

func TestExportAsUnknown(t *testing.T) {
	refused := []string{"--as", "prometheusrule"}
	invocation{"another form", []string{"alerts", "export", "--as", "configmap", t.TempDir()}, exitUsage, nil, refused}.check(t, "")
}
