package policies_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Every example passes its tests, and gets no warning.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.tests.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}

	for _, file := range files {
		report, err := policies.TestFile(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}

		if report.Failed > 0 || report.Passed == 0 {
			t.Errorf("%s: %d passed, %d failed:\n%s", file, report.Passed, report.Failed, report.Error())
		}
		if set, err := policies.LoadFile(report.Policies); err != nil || len(set.Warnings) > 0 {
			t.Errorf("%s: %v, %v", file, set.Warnings, err)
		}
	}
}

// suiteOf runs tests of a policy file with one policy, which charges POST by the user.
func suiteOf(t *testing.T, tests string) (*policies.SuiteReport, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), onePolicy("key: request.user\n    when: request.method == 'POST'"))
	write(t, filepath.Join(dir, "t.yaml"), "policies: p.yaml\ntests:\n"+tests)
	return policies.TestFile(filepath.Join(dir, "t.yaml"))
}

// A test of a first limit sees the authoritative allow everything.
func TestSuiteOfAFirstLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), withNone(goodCandidate))
	write(t, filepath.Join(dir, "t.yaml"), `policies: p.yaml
tests:
  - name: a check
    request: { ip: 192.0.2.1 }
    charges: [{ policy: p, authoritative: none, candidate: 'gcra:10/1m' }]
  - name: a budget
    sequence:
      - { request: { ip: 192.0.2.1 }, repeat: 10, authoritative: allow, candidate: allow }
      - { request: { ip: 192.0.2.1 }, authoritative: allow, candidate: deny }
`)
	report, err := policies.TestFile(filepath.Join(dir, "t.yaml"))
	if err != nil || report.Failed > 0 || report.Passed != 2 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestSuiteSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, test, want string }{
		{"a wrong key", "- {name: n, request: {method: POST, user: a}, charges: [{key: b}]}", `key is "a", want "b"`},
		{
			"a wrong limit", "- {name: n, request: {method: POST, user: a}, charges: [{authoritative: 'gcra:1/1m'}]}",
			`authoritative is "fixed_window:10/1m", want "gcra:1/1m"`,
		},
		{"too few checks", "- {name: n, request: {method: POST, user: a}, charges: []}", "charged by p: list every check, and no other"},
		{"too many checks", "- {name: n, request: {user: a}, charges: [{key: a}]}", "charged by no policy: list every check, and no other"},
		{"a request alone", "- {name: n, request: {user: a}}", "a test of a request needs its charges"},
		{"a misspelt field", "- {name: n, request: {user: a}, charge: []}", "did you mean charges?"},
		{
			"a wrong decision", "- {name: n, sequence: [{request: {method: POST}, repeat: 11, candidate: allow}]}",
			"request 11 of the step: the candidate says deny, want allow",
		},
		{"a limit in parts", "- {name: n, request: {method: POST, user: a}, charges: [{candidate: {limit: 9}}]}", "candidate: want one text"},
		{"nothing expected", "- {name: n, sequence: [{request: {method: POST}, repeat: 11}]}", "no step says what it expects"},
		{"back in time", "- {name: n, sequence: [{at: 1s, request: {}}, {at: 0s, request: {}}]}", "before the one above"},
		{"an unknown field", "- {name: n, request: {methodd: POST}, charges: []}", "unknown field"},
		{"an unknown policy", "- {name: n, request: {method: POST}, charges: [{policy: q}]}", "charged by p: list every check"},
		{
			"another policy", "- {name: n, request: {method: POST, user: a}, charges: [{policy: p, key: b}]}", `key is "a", want "b"`,
		},
		{"headers as a list", "- {name: n, request: {headers: [a]}, charges: []}", "request: headers: cannot be array"},
		{"an unknown field's place", "- {name: n, request: {user: a, methodd: POST}, charges: []}", "request: unknown field"},
		{"neither", "- {name: n}", "either a request with charges, or a sequence"},
		{"no name", "- {request: {}, charges: []}", `needs "name"`},
		{"a step without a request", "- {name: n, sequence: [{at: 1s}]}", `needs "request"`},
		{"a bad time", "- {name: n, sequence: [{at: soon, request: {}}]}", "want a time since the start"},
	}

	for _, tt := range tests {
		report, err := suiteOf(t, "  "+tt.test+"\n")
		if err != nil || report.Failed != 1 {
			t.Errorf("%s: error %v, %+v", tt.name, err, report)
			continue
		}
		if got := report.Error(); !strings.Contains(got, tt.want) || !strings.Contains(got, "t.yaml:3:") {
			t.Errorf("%s: error %v, %+v", tt.name, err, report)
		}
	}
}

// A report names its tests, so two of one name are one too many.
func TestSuiteRefusesTwoTestsOfOneName(t *testing.T) {
	test := "  - {name: n, request: {}, charges: []}\n"
	report, err := suiteOf(t, test+test)
	const want = `t.yaml:4:5: two tests have the name "n": the first is in line 3`
	if err != nil || report.Failed != 1 || !strings.Contains(report.Error(), want) {
		t.Errorf("error %v, %+v", err, report)
	}
}

func TestSuiteNamesThePlaceOfAMissingFile(t *testing.T) {
	tests := filepath.Join(t.TempDir(), "t.yaml")
	write(t, tests, "policies: nope.yaml\ntests: []\n")

	_, err := policies.TestFile(tests)
	if err == nil || !strings.HasPrefix(err.Error(), tests+":1:11: policies: there is no file ") {
		t.Errorf("a policy file that is not there: %v", err)
	}
}
