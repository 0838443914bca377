package main

import (
	"fmt"
	"strings"
	"testing"
)

// expectedSection declares a difference for all policies of a file.
const expectedSection = `
promotion:
  expected: [{ when: request.user == "bulk", direction: newly_denied, until: 2999-01-02, owner: team-a }]
`

func TestValidateShowsEveryProblem(t *testing.T) {
	tests := []struct {
		content string
		invocation
	}{
		{shopFile, invocation{"good", []string{"validate", "FILE"}, 0, []string{
			"FILE: valid, 2 policies ", "\n  writes, fingerprint ", "\n    authoritative  fixed_window:4/1m\n",
			`candidate      token_bucket:request.user == "vip" ? 8 : 4/1m:burst=2`, "\n  reads, fingerprint ",
			"leaky_bucket:60/1m:burst=3", "by up to 2s",
		}, nil}},
		{strings.Replace(shopFile, "fixed_window", "sliding_window_log", 1), invocation{
			"a log", []string{"validate", "FILE"}, 0, []string{"640 bytes a key"}, nil,
		}},
		{brokenFile, invocation{
			"all problems", []string{"validate", "FILE"}, 1, brokenText,
			[]string{"shadowlimit: FILE: 4 problems\n"},
		}},
		{shopFile + expectedSection, invocation{
			"an expected difference, with its owner", []string{"validate", "FILE"}, 0, []string{
				"expected       newly_denied ", "2999-01-02", "team-a", "request.user == \"bulk\"\n",
			}, nil,
		}},
		{doubtfulFile, invocation{"warnings", []string{"validate", "FILE"}, 0, []string{
			"FILE:5:10: warning: key: request.path ",
			"\n |     key: request.path\n |          ^\n",
			"FILE:8:10: warning: key: ", "request.headers[\"x-tenant\"]",
			"\n |     key: request.headers[\"x-tenant\"]\n |          ^\n",
			"FILE: valid, 2 policies",
		}, nil}},
		{needyFile, invocation{
			"what the program gives", []string{"validate", "FILE"}, 0, []string{
				"Config.Redis", "\"mine\"", "Config.Limiters", "\"other\"", "Config.Stores\n",
			}, nil,
		}},
		{shopFile, invocation{
			"no such file", []string{"validate", "FILE.not"}, 1, nil,
			[]string{"shadowlimit: FILE.not: no such file"},
		}},
		{shopFile, invocation{
			"no such file, JSON", []string{"validate", "-o", "json", "FILE.not"}, 1, nil,
			[]string{"FILE.not: no such file"},
		}},
		{shopFile, invocation{
			"a device without an end", []string{"validate", "/dev/zero"}, 1, nil, []string{"/dev/zero: not a regular file"},
		}},
		{"", invocation{
			"empty file", []string{"validate", "FILE"}, 1, []string{"FILE:1:1: the file is empty"},
			[]string{"FILE: 1 problem\n"},
		}},
		{shopFile, invocation{
			"no file", []string{"validate"}, 2, nil, []string{"got 0", "validate --help"},
		}},
		{shopFile, invocation{
			"two files", []string{"validate", "FILE", "FILE"}, 2, nil, []string{"got 2"},
		}},
		{shopFile, invocation{
			"a bad output", []string{"validate", "FILE", "-o", "yaml"}, 2, nil,
			[]string{"-o yaml: want text or json"},
		}},
		{shopFile, invocation{
			"an unknown flag after the file", []string{"validate", "FILE", "--strict"}, 2, nil, []string{"-strict"},
		}},
	}

	for _, tt := range tests {
		tt.check(t, write(t, "p.yaml", []byte(tt.content)))
	}
}

// needyFile has sides that a program gives.
const needyFile = `
version: 1
name: shop
policies:
  - name: a
    key: request.ip
    authoritative: { limiter: mine, limit: 5, window: 1m }
    candidate: { algorithm: gcra, limit: 100, window: 1m, store: other }
  - name: b
    key: request.ip
    authoritative: { algorithm: gcra, limit: 5, window: 1m, store: other }
  - name: c
    key: request.ip
    authoritative: { algorithm: gcra, limit: 100, window: 1m, store: { sync: 100ms } }
`

func TestValidateJSON(t *testing.T) {
	tests := []struct {
		name, content string
		status        int
		want          []string // problems
	}{
		{"good", shopFile, 0, nil},
		{"broken", brokenFile, 1, []string{
			"error 3:1 ", "error 6:10 key: ", "error 7:11 cost: ", "error 8:33 authoritative: ",
		}},
		{
			"doubtful", doubtfulFile, 0,
			[]string{"warning 5:10 key: ", "warning 8:10 key: "},
		},
	}

	for _, tt := range tests {
		file := write(t, "p.yaml", []byte(tt.content))
		status, out, _ := shell(t, "", "validate", file, "-o", "json")
		var report map[string]any
		decoded(t, out, &report)
		if status != tt.status || report["file"] != file || report["valid"] != (tt.status == 0) {
			t.Errorf("%s: status %d, %v", tt.name, status, report)
		}
		if got := fieldsOf(report); got != "file problems valid" {
			t.Errorf("%s: fields %s", tt.name, got)
		}

		problems, isList := report["problems"].([]any)
		if !isList || len(problems) != len(tt.want) {
			t.Errorf("%s: problems %v, want %d in a list", tt.name, report["problems"], len(tt.want))
			continue
		}

		for i, p := range problems {
			p := p.(map[string]any)
			got := fmt.Sprintf("%v %v:%v %v", p["severity"], p["line"], p["column"], p["message"])
			if !strings.HasPrefix(got, tt.want[i]) || fieldsOf(p) != "column line message severity" {
				t.Errorf("%s: problem %s with %s, want %s", tt.name, got, fieldsOf(p), tt.want[i])
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := write(t, "good.yaml", []byte(fleetFile))
	status, out, talk := shell(t, "", "validate", good)
	if status != 0 || !strings.Contains(out, "valid, 1 policy for checkout") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}

	const bucket = "leaky_bucket, limit: 60, window: 1m, burst: 31"
	leaky := write(t, "leaky.yaml", []byte(strings.Replace(fleetFile, "gcra, limit: 1, window: 1h", bucket, 1)))
	if _, out, _ := shell(t, "", "validate", leaky); !strings.Contains(out, "by up to 30s") {
		t.Errorf("leaky bucket: %s", out)
	}

	bad := write(t, "bad.yaml", []byte(strings.Replace(fleetFile, "limit: 1,", "limits: 1,", 1)))
	status, out, talk = shell(t, "", "validate", bad)
	missing := firstMissing(out+talk, []string{bad + ":9:35: candidate ", `"limits": did you mean limit?`, "1 problem"})
	if status != 1 || missing != "" {
		t.Errorf("status %d, no %q: %s%s", status, missing, out, talk)
	}

	status, out, _ = shell(t, "", "validate", bad, "-o", "json")
	var report validateReport
	decoded(t, out, &report)
	if status != 1 || report.Valid || report.File != bad || len(report.Problems) != 1 || report.Problems[0].Line != 9 {
		t.Errorf("status %d: %s", status, out)
	}
}

// The text of a policy file is its author's: no part of it steers the terminal of a reviewer, or makes a line of its own. The file
// has all of its free texts, which the reader text takes: a new one belongs here, too.
func TestValidateSteersNoTerminal(t *testing.T) {
	const file = `
version: 1
name: shop
policies:
  - name: writes
    key: request.user
    authoritative: { algorithm: gcra, limit: 2, window: 1m }
    candidate: { algorithm: token_bucket, limit: 3, window: 1m }
    promotion:
      expected: [{ when: "request.user != 'a\e[2J'", direction: newly_allowed, until: 2030-01-01, owner: "ann\e[2J\nbob" }]
  - name: reads
    key: request.user
    authoritative: { limiter: "own\e[2J\nbob", revision: "ann\e[2J\nbob" }
    candidate: { id: "next\e[2J\nbob", algorithm: token_bucket, limit: 3, window: 1m }
`

	deployed := write(t, "deployed.yaml", []byte(strings.ReplaceAll(file, "ann", "eve")))
	status, out, talk := shell(t, "", "validate", write(t, "policies.yaml", []byte(file)), "--against", deployed)
	if status != exitOK || !strings.Contains(out, "owner ") || !strings.Contains(out, "eve") {
		t.Fatalf("status %d: %q, %q", status, out, talk)
	}

	for line := range strings.Lines(out + talk) {
		if strings.Contains(line, "\x1b") || strings.HasPrefix(line, "bob") {
			t.Errorf("%q: pass free text through humanize.Printable, and sentences through humanize.Visible", line)
		}
	}
}

// What follows from a mistake is no mistake of its own.
func TestOneMistakeIsOneProblem(t *testing.T) {
	for name, text := range map[string]string{
		"a text that is not closed": plain(`request.path == "a`, "request.ip"),
		"a threshold without a unit": plain("true", "request.ip") +
			"promotion: { newly_denied: 10, protect: [a] }\n",
	} {
		_, out, talk := shell(t, "", "validate", write(t, "p.yaml", []byte(text)))
		if !strings.Contains(talk, ": 1 problem\n") {
			t.Errorf("%s: %s%s", name, out, talk)
		}
	}
}
