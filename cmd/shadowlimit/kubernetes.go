package main

import (
	"bytes"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/alerts"
)

// kubernetes makes objects of Kubernetes of exported files. The namespace is that of kubectl apply -n.
type kubernetes struct {
	kind   string // as --as names it
	object func(name, file string, text []byte) any
}

type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels,omitempty"`
}

// prometheusRule is what the Prometheus operator reads.
var prometheusRule = kubernetes{"prometheusrule", func(_, _ string, text []byte) any {
	var groups yaml.Node // keeps the order and the comments
	if err := yaml.Unmarshal(text, &groups); err != nil {
		panic("embedded rules: " + err.Error())
	}
	return struct {
		APIVersion string     `yaml:"apiVersion"`
		Kind       string     `yaml:"kind"`
		Metadata   metadata   `yaml:"metadata"`
		Spec       *yaml.Node `yaml:"spec"`
	}{"monitoring.coreos.com/v1", "PrometheusRule", metadata{Name: "shadowlimit"}, groups.Content[0]}
}}

// configMap has the label that the sidecar of Grafana's chart looks for.
var configMap = kubernetes{"configmap", func(name, file string, text []byte) any {
	return struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   metadata          `yaml:"metadata"`
		Data       map[string]string `yaml:"data"`
	}{"v1", "ConfigMap", metadata{name, map[string]string{"grafana_dashboard": "1"}}, map[string]string{file: string(text)}}
}}

// writer returns how a file is written: with another address of the runbook, and as an object where as says so.
func (k kubernetes) writer(as, runbook string) (func(file) (file, error), error) {
	if as != "" && as != k.kind {
		return nil, usagef("write --as "+k.kind+", or nothing for plain files", "--as %q is not known here", as)
	}

	return func(f file) (file, error) {
		f.text = bytes.ReplaceAll(f.text, []byte(alerts.Runbook), []byte(runbook))
		if as == "" {
			return f, nil
		}

		base, _, _ := strings.Cut(path.Base(f.name), ".")
		text, err := yaml.Marshal(k.object("shadowlimit-"+base, path.Base(f.name), f.text))
		return file{strings.TrimSuffix(f.name, path.Ext(f.name)) + ".yaml", text}, err
	}, nil
}
