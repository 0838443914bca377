package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const shopFile = `version: 1
name: shop
policies:
  - name: writes
    when: request.method == "POST"
    key: request.user
    cost: 'request.path.startsWith("/bulk") ? 3 : 1'
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
    candidate: { algorithm: token_bucket, limit: 'request.user == "vip" ? 8 : 4', window: 1m, burst: 2 }
  - name: reads
    when: request.method == "GET"
    key: [request.user, request.route]
    authoritative: { algorithm: leaky_bucket, limit: 60, window: 1m, burst: 3 }
`

// brokenFile has four problems.
const brokenFile = `version: 1
name: shop
polcy: 1
policies:
  - name: p
    key: request.pth
    cost: request.ip
    authoritative: { algorithm: gcrra, limit: 4, window: 1m }
`

// brokenText is what all commands say of it.
const brokenText = `FILE:3:1: the file has no field "polcy": there are data, name, policies, promotion, variables, version
 | polcy: 1
 | ^
FILE:6:10: key: there is no request.pth: did you mean request.path?
 |     key: request.pth
 |          ^
FILE:7:11: cost: the expression is of type string: want int
 |     cost: request.ip
 |           ^
FILE:8:33: authoritative: no algorithm "gcrra": did you mean gcra?
 |     authoritative: { algorithm: gcrra, limit: 4, window: 1m }
 |                                 ^
`

// doubtfulFile is valid and has two warnings.
const doubtfulFile = `version: 1
name: shop
policies:
  - name: p
    key: request.path
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
  - name: q
    key: request.headers["x-tenant"]
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
`

// invocation is a command line with what comes of it. FILE in any text stands for
// the file that the command reads.
type invocation struct {
	name   string
	args   []string
	status int
	out    []string // parts of the output in their order; none: no output
	talk   []string // the same of what is said beside it
}

func (i invocation) check(t *testing.T, file string) {
	t.Helper()
	named := func(list []string) []string {
		list = slices.Clone(list)
		for n := range list {
			list[n] = strings.ReplaceAll(list[n], "FILE", file)
		}
		return list
	}
	status, out, talk := shell(t, "", named(i.args)...)
	if status != i.status {
		t.Errorf("%s: status %d, want %d: %s%s", i.name, status, i.status, out, talk)
	}
	for _, text := range []struct {
		what, got string
		want      []string
	}{{"output", out, named(i.out)}, {"talk", talk, named(i.talk)}} {
		if missing := firstMissing(text.got, text.want); missing != "" {
			t.Errorf("%s: %s\n%s\nhas no\n%s", i.name, text.what, text.got, missing)
		}
		if len(text.want) == 0 && text.got != "" {
			t.Errorf("%s: %s %q, want none", i.name, text.what, text.got)
		}
	}
}

// firstMissing returns the first part that does not come after those before it.
func firstMissing(text string, parts []string) string {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return part
		}
		text = after
	}
	return ""
}

// decoded reads one JSON value and nothing more.
func decoded(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func fieldsOf(object map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(object)), " ")
}

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
			"FILE: valid, 2 policies for shop\n  writes, epoch ", "\n    authoritative  fixed_window:4/1m\n",
			`candidate      token_bucket:request.user == "vip" ? 8 : 4/1m:burst=2`, "\n  reads, epoch ", "leaky_bucket:60/1m:burst=3", "by up to 2s",
		}, nil}},
		{brokenFile, invocation{"all problems", []string{"validate", "FILE"}, 1, []string{brokenText}, []string{"shadowlimit: FILE: 4 problems\n"}}},
		{doubtfulFile, invocation{"warnings", []string{"validate", "FILE"}, 0, []string{
			"FILE:5:10: warning: key: request.path has a new value in nearly every request", "\n |     key: request.path\n |          ^\n",
			"FILE:8:10: warning: key: a request without request.headers[\"x-tenant\"]", "\n |     key: request.headers[\"x-tenant\"]\n |          ^\n",
			"FILE: valid, 2 policies",
		}, nil}},
		{shopFile + expectedSection, invocation{"an expected difference, with its owner", []string{"validate", "FILE"}, 0, []string{
			"    expected       newly_denied until 2999-01-02, owner team-a, when request.user == \"bulk\"\n",
		}, nil}},
		{shopFile, invocation{"no such file", []string{"validate", "FILE.not"}, 1, nil, []string{"shadowlimit: FILE.not: no such file or directory\n"}}},
		{shopFile, invocation{"no such file, JSON", []string{"validate", "-o", "json", "FILE.not"}, 1, nil, []string{"FILE.not: no such file or directory\n"}}},
		{"", invocation{"empty file", []string{"validate", "FILE"}, 1, []string{"FILE:1:1: the file is empty"}, []string{"FILE: 1 problem\n"}}},
		{shopFile, invocation{"no file", []string{"validate"}, 2, nil, []string{"validate needs one file, got 0", "validate --help"}}},
		{shopFile, invocation{"two files", []string{"validate", "FILE", "FILE"}, 2, nil, []string{"validate needs one file, got 2"}}},
		{shopFile, invocation{"a bad output", []string{"validate", "FILE", "-o", "yaml"}, 2, nil, []string{"-o yaml: want text or json"}}},
		{shopFile, invocation{"an unknown flag after the file", []string{"validate", "FILE", "--strict"}, 2, nil, []string{"-strict"}}},
	}
	for _, tt := range tests {
		tt.check(t, write(t, "p.yaml", []byte(tt.content)))
	}
}

func TestValidateJSON(t *testing.T) {
	tests := []struct {
		name, content string
		status        int
		want          []string // problems
	}{
		{"good", shopFile, 0, nil},
		{"broken", brokenFile, 1, []string{
			`error 3:1 the file has no field "polcy": there are`, "error 6:10 key: there is no request.pth: did you mean request.path?",
			"error 7:11 cost: the expression is of type string: want int", `error 8:33 authoritative: no algorithm "gcrra": did you mean gcra?`,
		}},
		{"doubtful", doubtfulFile, 0, []string{"warning 5:10 key: request.path has a new value in nearly every request", "warning 8:10 key: a request without"}},
	}
	for _, tt := range tests {
		file := write(t, "p.yaml", []byte(tt.content))
		status, out, _ := shell(t, "", "validate", file, "-o", "json")
		var report map[string]any
		decoded(t, out, &report)
		if status != tt.status || report["file"] != file || report["valid"] != (tt.status == 0) || fieldsOf(report) != "file problems valid" {
			t.Errorf("%s: status %d, %v", tt.name, status, report)
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

func TestTestOnExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/policies/*.tests.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	status, out, talk := shell(t, "", append([]string{"test"}, files...)...)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if status != 0 || talk != "" || len(lines) != len(files) {
		t.Fatalf("status %d, %q, want one line for each of %d files in\n%s", status, talk, len(files), out)
	}
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s: %d passed, 0 failed", file, strings.Count(string(content), "\n  - name: "))
		if lines[i] != want {
			t.Errorf("got %q, want %q", lines[i], want)
		}
	}
}

// testFiles writes a policy file and its tests, and returns the name of the tests.
func testFiles(t *testing.T, policies, tests string) string {
	t.Helper()
	file := write(t, "shop.tests.yaml", []byte("policies: shop.yaml\ntests:"+tests))
	if policies == "" {
		return file
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "shop.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const rightTest = "\n  - { name: right, request: { method: POST, user: vip }, charges: [{ policy: writes, key: vip, cost: 1, candidate: \"token_bucket:8/1m:burst=2\" }] }"
const readTest = "\n  - { name: read, request: { method: GET, user: a, route: /r }, charges: [{ policy: reads, key: a|/r }] }"
const wrongTest = "\n  - { name: wrong, request: { method: POST, user: vip }, charges: [{ key: nobody }] }"

func TestTest(t *testing.T) {
	const sequence = "\n  - name: steps\n    sequence:\n      - { at: 0s, repeat: 2, request: { method: POST }, authoritative: allow, candidate: allow }\n" +
		"      - { at: 0s, request: { method: POST }, authoritative: allow, candidate: WANT }\n"
	yes := strings.Replace(sequence, "WANT", "deny", 1) // the third request meets a burst of 2 and a window of 4
	no := strings.Replace(sequence, "WANT", "allow", 1)
	const fails = "\n  - { name: fails, sequence: [{ repeat: 50, request: { method: POST } }] }"
	failing := strings.Replace(shopFile, "key: request.user\n", "key: request.headers[\"x-t\"]\n", 1)
	tests := []struct {
		policies, tests string
		invocation
	}{
		{shopFile, rightTest + readTest, invocation{"all seen", nil, 0, []string{"FILE: 2 passed, 0 failed\n"}, nil}},
		{shopFile, rightTest, invocation{"half seen", nil, 0, []string{"FILE: 1 passed, 0 failed\n  not seen both to match and not to match: writes, reads\n"}, nil}},
		{shopFile, readTest + wrongTest + rightTest, invocation{"a wrong key", nil, 1, []string{
			"FILE:4:75: wrong: key is \"vip\", want \"nobody\"\n |   - { name: wrong,", "\n | " + strings.Repeat(" ", 74) + "^\n", "FILE: 2 passed, 1 failed\n",
		}, []string{"shadowlimit: 1 test failed\n"}}},
		{shopFile, yes, invocation{"a sequence", nil, 0, []string{"FILE: 1 passed, 0 failed\n"}, nil}},
		{shopFile, no, invocation{"a wrong sequence", nil, 1, []string{"FILE:6:9: steps: request 1 of the step: the candidate says deny, want allow\n", "FILE: 0 passed, 1 failed\n"}, []string{"1 test failed"}}},
		{failing, fails, invocation{"an expression that fails", nil, 1, []string{`FILE:3:54: fails: policy writes: request.headers["x-t"]: no such key: x-t`, "FILE: 0 passed, 1 failed"}, []string{"1 test failed"}}},
		{brokenFile, rightTest, invocation{"broken policies", nil, 1, nil, []string{"shop.yaml:3:1: the file has no field", "shop.yaml:8:33: authoritative"}}},
		{"", rightTest, invocation{"no policies", nil, 1, nil, []string{"shop.yaml: no such file or directory"}}},
		{shopFile, " 1", invocation{"tests that are no list", nil, 1, nil, []string{"shadowlimit: FILE:2:8: tests: want a list\n"}}},
		{shopFile, "\n  - { name: many, sequence: [{ repeat: 100001, request: {}, authoritative: allow }] }", invocation{"too many repetitions", nil, 1, []string{
			"FILE:3:30: many: repeat: at most 100000 times in a step\n", "FILE: 0 passed, 1 failed\n",
		}, []string{"1 test failed"}}},
		{shopFile, "\n  - { name: when, sequence: [{ at: soon, request: { method: POST }, authoritative: deny }] }", invocation{"a bad time, which ends the test", nil, 1, []string{
			"FILE:3:36: at: want a time since the start", "^\nFILE: 0 passed, 1 failed\n",
		}, []string{"1 test failed"}}},
		{shopFile, rightTest + "\npolcies: x", invocation{"an unknown field", nil, 1, nil, []string{`FILE:4:1: the file has no field "polcies": did you mean policies?`}}},
	}
	for _, tt := range tests {
		tt.args = []string{"test", "FILE"}
		tt.check(t, testFiles(t, tt.policies, tt.tests))
	}
	invocation{"no file", []string{"test"}, 2, nil, []string{"test needs a file of tests"}}.check(t, "")
	invocation{"no such file", []string{"test", "/nowhere/t.yaml"}, 1, nil, []string{"/nowhere/t.yaml: no such file or directory"}}.check(t, "")
}

// A step that fails alike at every repetition fails once.
func TestTestSaysAFailureOnce(t *testing.T) {
	failing := strings.Replace(shopFile, "key: request.user\n", "key: request.headers[\"x-t\"]\n", 1)
	file := testFiles(t, failing, "\n  - { name: fails, sequence: [{ repeat: 50, request: { method: POST } }] }")
	if _, out, _ := shell(t, "", "test", file); strings.Count(out, "no such key") != 1 {
		t.Errorf("%d failures of one step, want 1", strings.Count(out, "no such key"))
	}
}

func TestTestOfPoliciesElsewhere(t *testing.T) {
	policies := write(t, "shop.yaml", []byte(shopFile))
	file := write(t, "elsewhere.tests.yaml", []byte("policies: "+policies+"\ntests:"+rightTest))
	invocation{"an absolute name", []string{"test", "FILE"}, 0, []string{"FILE: 1 passed, 0 failed\n"}, nil}.check(t, file)
}

func TestTestJSON(t *testing.T) {
	file := testFiles(t, shopFile, readTest+wrongTest)
	status, out, talk := shell(t, "", "test", file, "-o", "json")
	var report struct {
		File, Policies string
		Passed, Failed int
		Failures       []struct {
			Severity, Message string
			Line, Column      int
		}
		Coverage []struct {
			Policy          string
			Matched, Passed bool
		}
	}
	decoded(t, out, &report)
	if status != 1 || talk != "shadowlimit: 1 test failed\n" || report.File != file || report.Policies != filepath.Join(filepath.Dir(file), "shop.yaml") {
		t.Errorf("status %d, %q, %+v", status, talk, report)
	}
	if got := fmt.Sprint(report.Passed, report.Failed, report.Failures, report.Coverage); got != `1 1 [{error wrong: key is "vip", want "nobody" 4 75}] [{writes true true} {reads true true}]` {
		t.Errorf("report %s", got)
	}
}
