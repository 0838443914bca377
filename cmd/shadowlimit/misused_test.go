package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong invocation is refused alike, with what to write, and no Redis need answer for it.
func TestWrongInvocations(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "redis://127.0.0.1:1")
	t.Setenv("SHADOWLIMIT_NAME", "shop")

	for args, want := range map[string]string{
		"watch --every x":                "for flag -every",
		"promote a --reason x --timeout": "needs an argument: -timeout",
		"promote a --timeout 5":          "for flag -timeout",
		"status -o":                      "needs an argument: -o",
		"watch a b":                      "one policy, got 2",
		"history":                        "one policy, got 0",
		"forget":                         "forget needs a policy",
		"key a":                          "got 1 argument\n",
		"controller a":                   "controller takes no arguments",
		"controller --notify x":          "want https://HOST/PATH",
		"controller --notify-as slack":   "--notify-as has no effect",
		"controller --notify http://a --notify-as xml": `no form "xml"`,
		"serve a.yaml":              "--config",
		"alerts --force export DIR": "shadowlimit alerts export --force",
		"replay --format nginx --from gcra:1/1m --to gcra:2/1m x": `no format "nginx"`,
		"validate a.yaml --against=":                              "--against: want a file",
		"serve --config a.yaml --listen unix:":                    "--listen unix:",
		"demo access.log":                                         "demo takes no arguments",
		"demo --listen nonsense":                                  "--listen nonsense:",
		"replay --from gcra:1/week --to gcra:1/1m x":              "--from gcra:1/week: window",
	} {
		if status, _, talk := shell(t, "", strings.Fields(args)...); status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d, no %q in %s", args, status, want, talk)
		}
	}
}

// A report must not be written over the log that it is about, whatever name the file has.
func TestReplayKeepsItsInput(t *testing.T) {
	const content = "time,key\n2026-01-01T00:00:00Z,a\n"
	log := write(t, "access.csv", []byte(content))
	link := filepath.Join(t.TempDir(), "link.csv")
	if err := os.Symlink(log, link); err != nil {
		t.Fatal(err)
	}

	for _, output := range [][]string{{"--decisions", log}, {"--html", log}, {"--decisions", link}} {
		args := append([]string{"replay", "--from", "gcra:1/1m", "--to", "fixed_window:1/1m", log}, output...)
		if status, _, talk := shell(t, "", args...); status != exitUsage || !strings.Contains(talk, "would be lost") {
			t.Errorf("%v: status %d: %s", output, status, talk)
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != content {
		t.Errorf("the log is now %q, %v", text, err)
	}
}

// The file that the help of test shows passes, with the policies that it is about.
func TestSampleOfTestsPasses(t *testing.T) {
	_, sample, found := strings.Cut(testDescription, "\n\n")
	sample, _, ended := strings.Cut(sample, "\n\nA test lists")
	if !found || !ended {
		t.Fatal("the help of test has no sample")
	}

	dir := t.TempDir()
	for name, text := range map[string]string{
		"checkout.tests.yaml": strings.ReplaceAll("\n"+sample, "\n  ", "\n"),
		"checkout.yaml": `
version: 1
name: checkout
policies:
  - name: tenant-writes
    when: request.method == "POST"
    key: request.headers[?"x-tenant"].orValue("none")
    cost: 'request.route == "/v1/bulk" ? 10 : 1'
    authoritative: { algorithm: fixed_window, limit: 100, window: 1m }
    candidate: { algorithm: token_bucket, limit: 100, window: 1m, burst: 20 }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	status, out, talk := shell(t, "", "test", filepath.Join(dir, "checkout.tests.yaml"))
	if status != exitOK || !strings.Contains(out, "2 passed, 0 failed") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
}

// With -o json a command that fails says so in JSON as well, with the exit status that it has as text.
func TestFailuresAsJSON(t *testing.T) {
	for _, args := range [][]string{
		{"status", "--redis", "redis://127.0.0.1:1", "--name", "x"},
		{"status", "--name", "x", "--redis", "http://user:secret@host"},
		{"top", "p", "--nme", "x"},
		{"validate", "missing.yaml"},
		{"validate", write(t, "broken.yaml", []byte(brokenFile))},
		{"replay", "--from", "gcra:1/1m", "--to", "none"},
		{"explain"},
	} {
		status, _, _ := shell(t, "", args...)
		for _, flags := range [][]string{{"-o", "json"}, {"--output=json"}} {
			asJSON, _, talk := shell(t, "", append(args, flags...)...)
			lines := strings.Split(strings.TrimSpace(talk), "\n")
			var f failure
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil || f.Error == "" {
				t.Errorf("%q: %q: %v", args, talk, err)
			}
			if asJSON != status || status == 0 {
				t.Errorf("%q: exit status %d, with %q %d", args, status, flags, asJSON)
			}
			if strings.Contains(talk, "secret") {
				t.Errorf("%q: %s", args, talk)
			}
		}
	}
}
