package policies_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// badFile is a file with a mistake, and the place of the problem.
type badFile struct {
	name, text   string
	line, column int // column 0: any
	want         string
}

// One file for each way to be wrong, with the place of the problem.
func TestBadFiles(t *testing.T) {
	for _, table := range [][]badFile{badStructure, badYAML, badNames, badExpressions, badSides, badPromotion, badPlaces, badClients} {
		for _, tt := range table {
			_, err := policies.Load("p.yaml", []byte(tt.text))
			var problems *policies.Problems
			if !errors.As(err, &problems) {
				t.Errorf("%s: error %v, want problems", tt.name, err)
				continue
			}
			if !slices.ContainsFunc(problems.List, tt.describes) {
				t.Errorf("%s: want %d:%d: ... %s, got\n%v", tt.name, tt.line, tt.column, tt.want, err)
			}
		}
	}
}

// One mistake is one problem: what comes of it is not reported, too.
func TestOneMistakeIsOneProblem(t *testing.T) {
	good := onePolicy("key: request.ip")
	for name, text := range map[string]string{
		"a required field":    strings.Replace(good, "authoritative:", "authoritive:", 1),
		"another":             strings.Replace(good, "key:", "keys:", 1),
		"a negation":          onePolicy("when: ! request.nope\n    key: request.ip"),
		"a word of another":   onePolicy("when: if true then true\n    key: request.ip"),
		"a table":             "data: {tiers: [1, x]}\n" + onePolicy("when: data.tiers == 1\n    key: request.ip"),
		"a variable":          "variables: {a: request.nope}\n" + onePolicy("key: variables.a"),
		"a type in an inner":  onePolicy("when: (request.path + 1) == 'a'\n    key: request.ip"),
		"a quote in a quote":  onePolicy("key: 'request.headers['x']'"),
		"two of one id, once": strings.Replace(good, "algorithm: gcra", "algorithm: fixed_window", 1),
	} {

		_, err := policies.Load("p.yaml", []byte(text))
		var problems *policies.Problems
		if !errors.As(err, &problems) || len(problems.List) != 1 {
			t.Errorf("%s: want one problem, got\n%v", name, err)
		}
	}
}

func (f badFile) describes(p policies.Problem) bool {
	place := p.Line == f.line && (f.column == 0 || p.Column == f.column)
	return place && strings.Contains(p.Message, f.want)
}

// A line is shown as YAML counts lines, and without the characters that end it.
func TestProblemsShowTheLineOfYAML(t *testing.T) {
	const want = "p.yaml:5:10: key: there is no request.ipp: did you mean request.ip?\n" +
		" |     key: request.ipp\n" +
		" |          ^"

	for _, end := range []string{"\n", "\r\n", "\r", "\u2028"} {
		text := strings.ReplaceAll(onePolicy("key: request.ipp"), "\n", end)
		if _, err := policies.Load("p.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got\n%v\nwant\n%s", end, err, want)
		}
	}
}

// badStructure are mistakes in the fields of a file and of a policy.
var badStructure = []badFile{
	{"empty", "", 1, 1, "the file is empty"},
	{"not YAML", "version: 1\n  name: [", 2, 1, "not YAML"},
	{"a list", "- version: 1", 1, 1, "the file: want a mapping"},
	{"two documents", "version: 1\n---\nversion: 1", 2, 1, "a second document"},
	{
		"unknown field", "version: 1\nname: a\npolcies: []\n",
		3, 1, `the file has no field "polcies": did you mean policies?`,
	},
	{"duplicate field", "version: 1\nname: a\nname: b\n", 3, 1, `the file has "name" twice`},
	{"no policies", "version: 1\nname: a\n", 1, 1, `the file needs "policies"`},
	{"no policy in the list", "version: 1\nname: a\npolicies: []\n", 3, 11, "want at least one"},
	{"an empty side", "version: 1\nname: a\npolicies:\n  - name: p\n    authoritative:\n", 5, 19, "authoritative: want a mapping"},
	{"version", "version: 2\nname: a\npolicies: []\n", 1, 10, "version: want 1"},
	{"name", "version: 1\nname: a:b\npolicies: []\n", 2, 7, "name: want 1 to 100 letters"},
	{
		"two of one name",
		onePolicy("key: request.ip") +
			strings.TrimPrefix(onePolicy("key: request.ip"), "version: 1\nname: test\npolicies:\n"),
		8, 5, `two policies are named "p": rename one; the first is in line 4`,
	},
	{
		"no key",
		"version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {algorithm: gcra, limit: 1, window: 1m}\n",
		4, 5, `a policy needs "key"`,
	},
	{"store failure", onePolicy("key: request.ip\n    on_store_failure: panic"), 6, 23, "want local or allow or deny"},
	{"rule for errors", onePolicy("key: request.ip\n    on_error: local"), 6, 15, "want allow or deny"},
	{
		"same id", strings.Replace(onePolicy("key: request.ip"), "algorithm: gcra", "algorithm: fixed_window", 1),
		7, 16, `both sides of p have the id "fixed_window", which names a side's state: write id: next into the candidate`,
	},
	{
		"no version",
		"name: a\npolicies: [{name: p, key: request.ip, authoritative: {algorithm: gcra, limit: 1, window: 1m}}]\n",
		1, 1, `the file needs "version"`,
	},
	{"version of another type", "version: [1]\nname: a\npolicies: []\n", 1, 10, "version: want 1"},
	{"generation 0", "version: 1\nname: a\ngeneration: 0\npolicies: []\n", 3, 13, "generation: want a whole number, at least 1"},
	{"a jitter without a unit", "version: 1\nname: a\nretry_jitter: 0.2\npolicies: []\n", 3, 15, "retry_jitter: want a percentage above 0%"},
	{"a fraction of a generation", "version: 1\nname: a\ngeneration: 1.5\npolicies: []\n", 3, 13, "generation: want a whole number"},
	{"an empty name", "version: 1\nname: ''\npolicies: []\n", 2, 7, "name: want 1 to 100"},
	{"a name of another type", "version: 1\nname: {a: b}\npolicies: []\n", 2, 7, "name: want 1 to 100"},
	{"policies that are no list", "version: 1\nname: a\npolicies: {p: 1}\n", 3, 11, "policies: want a list"},
	{"a policy that is no mapping", "version: 1\nname: a\npolicies: [p]\n", 3, 12, "a policy: want a mapping"},
	{
		"a policy without a name",
		"version: 1\nname: a\npolicies:\n  - key: request.ip\n    authoritative: {algorithm: gcra, limit: 1, window: 1m}\n",
		4, 5, `a policy needs "name"`,
	},
	{"a policy with a bad name", "version: 1\nname: a\npolicies:\n  - name: 'a b'\n", 4, 11, "name: want 1 to 100"},
	{
		"no authoritative", "version: 1\nname: a\npolicies:\n  - name: p\n    key: request.ip\n",
		4, 5, `a policy needs "authoritative"`,
	},
	{"a typing error in a field", onePolicy("keyy: request.ip"), 5, 5, "did you mean key?"},
	{
		"a side that is no mapping",
		onePolicy("key: request.ip\n    on_store_failure: local") + "    authoritative: gcra\n",
		9, 5, "twice",
	},
	{
		"a candidate that is no mapping",
		"version: 1\nname: a\npolicies:\n" +
			"  - {name: p, key: request.ip, authoritative: {algorithm: gcra, limit: 1, window: 1m}, candidate: gcra}\n",
		4, 99, "candidate: want a mapping",
	},
}

// badYAML are files that are not YAML. Package yaml tells their line in two ways, and no column.
var badYAML = []badFile{
	{"a tab", "version: 1\n\tname: a\n", 2, 1, "not YAML"},
	{"a sign without a meaning", "version: 1\nname: @a\n", 2, 1, "not YAML"},
	{"a mapping that is not closed", "version: 1\ndata: {a: 1\nname: a\n", 2, 1, "not YAML"},
	{"an item among fields", "- version\nname: a\n", 2, 1, "not YAML"},
	{"a colon without a space", "version: 1\nname:a\npolicies: []\n", 2, 1, "not YAML"},
	{"an anchor without a name", "version: 1\nname: &\n", 2, 1, "not YAML"},
	{"an alias of nothing", onePolicy("key: *tenant"), 1, 1, "'tenant'"},
	{"a text in Latin 1", "version: 1\nname: caf\xe9\n", 1, 1, "UTF-8"},
	{"another file", "version: 1\nname: a\npolicies: !include b.yaml\n", 3, 11, "policies: want a list"},
	{"a negation that YAML drops", onePolicy("when: ! request.path == 'a'\n    key: request.ip"), 5, 11, "drops a !"},
	{"one in a list", onePolicy("key: [!a request.ip]"), 5, 11, "drops a !"},
	{"one of parentheses", onePolicy("when: !(request.method == 'GET')\n    key: request.ip"), 5, 11, "drops a !"},
	{"one of a name", onePolicy("when: !request.path\n    key: request.ip"), 5, 11, "want a CEL expression"},
}

// badNames are mistakes in data and variables.
var badNames = []badFile{
	{"data of a bad name", "data: {'a-b': 1}\n" + onePolicy("key: request.ip"), 1, 8, "is not a name for expressions"},
	{
		"data of a deep table", "data: {a: {b: {c: 1}}}\n" + onePolicy("key: request.ip"),
		1, 15, "want text, a number, true or false",
	},
	{
		"an entry of data twice", "data: {a: {b: 1, b: 2}}\n" + onePolicy("key: request.ip"),
		1, 18, `data.a has "b" twice`,
	},
	{"data that is no mapping", "data: [1]\n" + onePolicy("key: request.ip"), 1, 7, "data: want a mapping"},
	{
		"a typing error in a data name",
		"data: {overrides: {acme: 1}}\n" +
			candidate("key: request.ip", "algorithm: gcra, limit: 'data.override[request.ip]'"),
		8, 42, "did you mean data.overrides?",
	},
	{
		"a variable twice", "variables: {a: request.ip, a: request.ip}\n" + onePolicy("key: request.ip"),
		1, 28, `variables has "a" twice`,
	},
	{
		"a variable of a bad name", "variables: {a b: request.ip}\n" + onePolicy("key: request.ip"),
		1, 13, "is not a name for expressions",
	},
	{
		"a typing error in a variable name", "variables: {tenant: request.ip}\n" + onePolicy("key: variables.tennant"),
		6, 10, "did you mean variables.tenant?",
	},
	{"data of mixed types", "data: {a: [1, x]}\n" + onePolicy("key: request.ip"), 1, 15, "values of one type"},
	{
		"variable before its declaration", "variables: {a: variables.b, b: request.ip}\n" + onePolicy("key: variables.a"),
		1, 16, "there is no variables.b",
	},
}
