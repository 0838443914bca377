// Package deploy has the files that run shadowlimit on Kubernetes, by systemd and by Compose. These tests hold that
// they say what Kubernetes, and the programs, understand.
package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// documents are the objects of all files of the base, by kind.
func documents(t *testing.T) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("kustomize/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string][][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var head struct{ Kind string }
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			byKind[head.Kind] = append(byKind[head.Kind], document)
		}
	}
	return byKind
}

func decode[T any](t *testing.T, documents [][]byte) (list []T) {
	t.Helper()
	if len(documents) == 0 {
		t.Fatalf("no %T", list)
	}
	for _, document := range documents {
		var object T
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			t.Errorf("%v\n%s", err, document)
		}
		list = append(list, object)
	}
	return list
}

func TestObjectsAreStrict(t *testing.T) {
	byKind := documents(t)
	decode[core.Service](t, byKind["Service"])
	decode[policy.PodDisruptionBudget](t, byKind["PodDisruptionBudget"])
	decode[networking.NetworkPolicy](t, byKind["NetworkPolicy"])
	decode[monitoring.ServiceMonitor](t, byKind["ServiceMonitor"])

	programs := map[string]string{"shadowlimit": program(t, "..", "./cmd/shadowlimit"), "shadowlimit-envoy": program(t, "../envoy", "./cmd/shadowlimit-envoy")}
	for _, d := range decode[apps.Deployment](t, byKind["Deployment"]) {
		pod := d.Spec.Template.Spec
		if !*pod.SecurityContext.RunAsNonRoot || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: it may do more than it has to", d.Name)
		}
		for _, c := range pod.Containers {
			checkFlags(t, d.Name, programs[c.Image], c.Args)
		}
	}
}

// TestUnitAndComposeFile holds that the other files name commands and flags that there are.
func TestUnitAndComposeFile(t *testing.T) {
	shadowlimit := program(t, "..", "./cmd/shadowlimit")
	unit, err := os.ReadFile("systemd/shadowlimit.service")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=\S+ (.*)$`).FindSubmatch(unit)
	checkFlags(t, "the unit", shadowlimit, strings.Fields(string(line[1])))

	text, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	checkFlags(t, "the compose file", shadowlimit, compose.Services["serve"].Command)

	for _, file := range []string{"kustomize/policies.yaml", "kustomize/envoy-policies.yaml"} {
		if out, err := exec.Command(shadowlimit, "validate", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestImagesOfTheNewestVersion holds that the files name the images of the changelog's first section.
func TestImagesOfTheNewestVersion(t *testing.T) {
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(changes)
	for file, tag := range map[string]string{"kustomize/kustomization.yaml": "newTag: ", "compose/compose.yaml": "image: shadowlimit/shadowlimit:"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, rest := range strings.Split(string(text), tag)[1:] {
			if name, _, _ := strings.Cut(rest, "\n"); name != string(newest[1])+"-amd64" {
				t.Errorf("%s: the image is %s, and the newest version is %s", file, name, newest[1])
			}
		}
	}
}

func program(t *testing.T, module, folder string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", file, folder)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// checkFlags holds that the help of the command names each flag of the arguments.
func checkFlags(t *testing.T, where, program string, args []string) {
	t.Helper()
	command := []string{"--help"}
	if !strings.HasPrefix(args[0], "-") {
		command = []string{args[0], "--help"}
	}
	help, err := exec.Command(program, command...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "--") && !regexp.MustCompile(`(?m)^ +`+name+`\b`).Match(help) {
			t.Errorf("%s: there is no flag %s", where, name)
		}
	}
}
