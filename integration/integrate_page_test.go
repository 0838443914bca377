package integration

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The command and the client of docs/integrate.md ask a server with the README's policy file, and get what the page shows.
func TestServeIsAskedAsItsPageSays(t *testing.T) {
	t.Parallel()
	page := readFile(t, "../docs/integrate.md")
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	startServe(t, dir, filepath.Join(dir, "s"), readmeBlock(t, "yaml", "version: 1"), "--listen", "127.0.0.1:"+port)

	asked := 0
	for _, block := range fenced(page, "console") {
		line, shown, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		asked++
		var got, want map[string]any
		out := run(t, "sh", "-c", strings.ReplaceAll(line, "8429", port))
		for text, into := range map[string]*map[string]any{out: &got, shown: &want} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) || got["remaining"] != want["remaining"] {
			t.Errorf("%s answers %s, shown is %s", line, out, shown)
		}
	}

	for _, program := range fenced(page, "python") {
		asked++
		program = strings.ReplaceAll(program, "8429", port) + `
print(json.dumps(check({"method": "POST", "route": "/orders/{id}", "headers": {"x-tenant": "globex"}})))`
		if out := run(t, "python3", "-c", program); !strings.Contains(out, `"remaining": 99`) {
			t.Errorf("the client is answered %s", out)
		}
	}
	if asked != 2 {
		t.Errorf("%d questions of the page were asked, want 2", asked)
	}
}

// run returns the output of a program that every machine for development has.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}
