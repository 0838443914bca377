package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTestOnExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.tests.yaml")
	if err != nil || len(files) == 0 {
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

// Tests of shopFile: one that passes for each policy, and one that fails.
const (
	rightTest = "\n  - { name: right, request: { method: POST, user: vip }, " +
		"charges: [{ policy: writes, key: vip, cost: 1, candidate: \"token_bucket:8/1m:burst=2\" }] }"
	readTest = "\n  - { name: read, request: { method: GET, user: a, route: /r }, " +
		"charges: [{ policy: reads, key: a|/r }] }"
	wrongTest = "\n  - { name: wrong, request: { method: POST, user: vip }, charges: [{ key: nobody }] }"
)

func TestTest(t *testing.T) {
	const sequence = "\n  - name: steps\n    sequence:\n" +
		"      - { at: 0s, repeat: 2, request: { method: POST }, authoritative: allow, candidate: allow }\n" +
		"      - { at: 0s, request: { method: POST }, authoritative: allow, candidate: WANT }\n"

	yes := strings.Replace(sequence, "WANT", "deny", 1) // the third request meets a burst of 2 and a window of 4
	no := strings.Replace(sequence, "WANT", "allow", 1)

	const manyTest = "\n  - { name: many, sequence: [{ repeat: 100001, request: {}, authoritative: allow }] }"
	const whenTest = "\n  - { name: when, sequence: [{ at: soon, request: { method: POST }, authoritative: deny }] }"
	const fails = "\n  - { name: fails, sequence: [{ repeat: 50, request: { method: POST } }] }"

	failing := strings.Replace(shopFile, "key: request.user\n", "key: request.headers[\"x-t\"]\n", 1)

	tests := []struct {
		policies, tests string
		invocation
	}{
		{shopFile, rightTest + readTest, invocation{"all seen", nil, 0, []string{"FILE: 2 passed, 0 failed\n"}, nil}},
		{shopFile, readTest + wrongTest + rightTest, invocation{"a wrong key", nil, 1, []string{
			"FILE:4:75: wrong: key is \"vip\", want \"nobody\"\n | …",
			"charges: [{ key: nobody }] }\n | " + strings.Repeat(" ", 66) + "^\n", "FILE: 2 passed, 1 failed\n",
		}, []string{"shadowlimit: 1 test failed\n"}}},
		{shopFile, yes, invocation{"a sequence", nil, 0, []string{"FILE: 1 passed, 0 failed\n"}, nil}},
		{shopFile, no, invocation{
			"a wrong sequence", nil, 1,
			[]string{
				"FILE:6:9: steps: request 1 ", "candidate says deny, want allow\n",
				"FILE: 0 passed, 1 failed\n",
			},
			[]string{"1 test failed"},
		}},
		{failing, fails, invocation{
			"an expression that fails", nil, 1,
			[]string{
				`FILE:3:54: fails: policy writes: request.headers["x-t"]: no such key: x-t`,
				"FILE: 0 passed, 1 failed",
			},
			[]string{"1 test failed"},
		}},
		{brokenFile, rightTest, invocation{
			"broken policies", nil, 1, nil,
			[]string{"shop.yaml:3:1: ", "shop.yaml:8:33: authoritative"},
		}},
		{"", rightTest, invocation{"no policies", nil, 1, nil, []string{":1:11: policies: ", "shop.yaml"}}},
		{shopFile, " 1", invocation{
			"tests that are no list", nil, 1, nil, []string{"FILE:2:8: tests: want a list\n"},
		}},
		{shopFile, manyTest, invocation{"too many repetitions", nil, 1, []string{
			"FILE:3:30: many: repeat: at most 100000", "FILE: 0 passed, 1 failed\n",
		}, []string{"1 test failed"}}},
		{shopFile, whenTest, invocation{"a bad time, which ends the test", nil, 1, []string{
			"FILE:3:36: at: want a time", "^\nFILE: 0 passed, 1 failed\n",
		}, []string{"1 test failed"}}},
		{shopFile, rightTest + "\npolcies: x", invocation{
			"an unknown field", nil, 1, nil,
			[]string{`FILE:4:1: `, `"polcies": did you mean policies?`},
		}},
	}

	for _, tt := range tests {
		tt.args = []string{"test", "FILE"}
		tt.check(t, testFiles(t, tt.policies, tt.tests))
	}
	invocation{"no file", []string{"test"}, 2, nil, []string{"test needs a file of tests"}}.check(t, "")
	invocation{
		"no such file", []string{"test", "/nowhere/t.yaml"}, 1, nil,
		[]string{"/nowhere/t.yaml: no such file"},
	}.check(t, "")
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
	passes := []string{"FILE: 1 passed, 0 failed\n"}
	invocation{"an absolute name", []string{"test", "FILE"}, 0, passes, nil}.check(t, file)
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
	}

	decoded(t, out, &report)
	policies := filepath.Join(filepath.Dir(file), "shop.yaml")
	if status != 1 || talk != `{"error":"1 test failed"}`+"\n" || report.File != file || report.Policies != policies {
		t.Errorf("status %d, %q, %+v", status, talk, report)
	}

	got := fmt.Sprint(report.Passed, report.Failed, report.Failures)
	const want = `1 1 [{error wrong: key is "vip", want "nobody" 4 75}]`
	if got != want {
		t.Errorf("report %s", got)
	}
}
