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

// mistypedGroup has a later member of a group whose name is mistyped.
const mistypedGroup = "version: 1\nname: test\npolicies:\n" +
	"  - { name: a, group: { name: client, charge: all_or_nothing }, key: request.ip, " +
	"authoritative: { algorithm: gcra, limit: 1, window: 1m } }\n" +
	"  - { name: b, group: { name: clients }, authoritative: { algorithm: gcra, limit: 1, window: 1h } }\n"

// One mistake is one problem: what comes of it is not reported, too.
func TestOneMistakeIsOneProblem(t *testing.T) {
	good := onePolicy("key: request.ip")
	for name, text := range map[string]string{
		"a required field":     strings.Replace(good, "authoritative:", "authoritive:", 1),
		"another":              strings.Replace(good, "key:", "keys:", 1),
		"a negation":           onePolicy("when: ! request.nope\n    key: request.ip"),
		"a dash":               onePolicy("key: request.headers.x-tenant"),
		"a word of another":    onePolicy("when: if true then true\n    key: request.ip"),
		"a table":              "data: {tiers: [1, x]}\n" + onePolicy("when: data.tiers == 1\n    key: request.ip"),
		"a variable":           "variables: {a: request.nope}\n" + onePolicy("key: variables.a"),
		"a type in an inner":   onePolicy("when: (request.path + 1) == 'a'\n    key: request.ip"),
		"a quote in a quote":   onePolicy("key: 'request.headers['x']'"),
		"a group without {}":   strings.Replace(onePolicy("group: client"), "\n    candidate", "\n    # candidate", 1),
		"a header by its name": onePolicy("key: x-api-key"),
		"a group's name":       mistypedGroup,
		"an item without its sign": strings.Replace(onePolicy("key: request.ip")+strings.TrimPrefix(onePolicy("key: request.user"),
			"version: 1\nname: test\npolicies:\n"), "  - name: p\n    key: request.user", "    name: p\n    key: request.user", 1),
		"a section that is not indented": strings.Replace(good, "    candidate: {algorithm: gcra, limit: 10, window: 1m}",
			"    algorithm: gcra\n    limit: 10\n    window: 1m\n    burst: 3", 1),
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
	{"not YAML", "version: 1\n  name: [", 2, 3, "not YAML"},
	{"a list", "- version: 1", 1, 1, "the file: want a mapping"},
	{"two documents", "version: 1\n---\nversion: 1", 2, 1, "a second document"},
	{
		"unknown field", "version: 1\nname: a\npolcies: []\n",
		3, 1, `the file has no field "polcies": did you mean policies?`,
	},
	{"duplicate field", "version: 1\nname: a\nname: b\n", 3, 1, `the file has "name" twice`},
	{"no policies", "version: 1\nname: a\n", 1, 1, `the file needs "policies"`},
	{"no policy in the list", "version: 1\nname: a\npolicies: []\n", 3, 11, "want at least one"},
	{"an empty side", "version: 1\nname: a\npolicies:\n  - name: p\n    authoritative:\n", 5, 19, "such as { algorithm: fixed_window"},
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

// badYAML are files that are not YAML. Package yaml tells their line in its own ways.
var badYAML = []badFile{
	{"a no-break space", "version: 1\nname:\u00a0a\npolicies: []\n", 2, 6, "not YAML: a no-break space"},
	{"a no-break space in a side", onePolicy("key:\u00a0request.ip\n    when: 'true'"), 5, 9, "not YAML: a no-break space"},
	{"a comma that is missing", side("algorithm: gcra limit: 2, window: 1m"), 5, 37, "a comma is missing in front of limit"},
	{"a comma behind quotes", side("algorithm: 'gcra' limit: 2"), 5, 39, "a comma is missing in front of limit"},
	{"an expression in a list", onePolicy("key: [request.headers['x-a'], request.ip]"), 5, 11, "needs quotes: 'request.headers[...'"},
	{"an expression in braces", promotion("protect: { keys: key[0] == 'a' }"), 6, 34, "needs quotes: 'key[...'"},
	{"a brace too many", onePolicy("group: { name: a }}\n    key: request.ip"), 5, 23, "a } too many"},
	{"a dash without its space", "version: 1\nname: a\npolicies:\n  -name: p\n    key: request.ip\n", 4, 3, "behind the dash"},
	{"the only quote", "version: 1\nname: \"a\n", 2, 7, "the quote that begins here is not closed"},
	{"another file", "version: 1\nname: a\npolicies: !include b.yaml\n", 3, 11, "no other file is included"},
	{"a tab", "version: 1\n\tname: a\n", 2, 1, "not YAML: a tab in the indentation"},
	{"a tab in the first line", "\tversion: 1\n", 1, 1, "a tab in the indentation"},
	{"a tab before an item", "version: 1\npolicies:\n\t- name: p\n", 3, 1, "a tab in the indentation"},
	{"a tab below a value", "version: 1\npolicies:\n  - name: p\n\t  key: x\n", 4, 1, "a tab in the indentation"},
	{"a tab after spaces", "version: 1\npolicies:\n  - name: p\n    key: x\n  \tcost: 3\n", 5, 3, "a tab in the indentation"},
	{"a tab in a text of lines", "version: 1\nname: |\n  x\n\ty\n", 4, 1, "a tab in the indentation"},
	{"a sign without a meaning", "version: 1\nname: @a\n", 2, 7, "a text that begins with @ needs quotes"},
	{"a list that is not closed", "version: 1\ndata: {a: 1\nname: a\n", 2, 7, "the { that begins here is not closed"},
	{"a list that is closed twice", "version: 1\nname: ]\n", 2, 1, "did not find expected node content"},
	{"an item among fields", "- version\nname: a\n", 2, 1, "stands in another column than its siblings"},
	{"a field too far to the left", "version: 1\npolicies:\n    name: a\n  key: b\n", 4, 3, "in column 1 or 5: indent it as one of them"},
	{"a field of an item too far to the left", onePolicy("key: request.ip\n   cost: 2"), 6, 4, "in column 3 or 5"},
	{"an item too far to the left", onePolicy("key: request.ip") + " - name: b\n", 8, 2, "in column 1 or 3"},
	{
		"an item without its sign", strings.Replace(onePolicy("key: request.ip"), "  - name", "  - key: a\n  name", 1),
		5, 3, "an item begins with -",
	},
	{"a field of a list", onePolicy("promotion:\n      - mode: manual\n      soak: 49h\n    key: a"), 7, 7, "an item begins with -"},
	{
		"an open quote", onePolicy("when: 'request.path == \"/a\"\n    key: request.ip\n    cost: 'request.size'"),
		5, 11, "the quote that begins here is not closed on its line",
	},
	{
		"an open double quote", onePolicy("when: \"request.path == 'a'\n    key: \"request.ip\""),
		5, 11, "the quote that begins here is not closed on its line",
	},
	{"behind a text of lines", onePolicy("when: >-\n      true\n       && true\n   key: request.ip"), 8, 4, "in column 3 or 5"},
	{"a colon without a space", "version: 1\nname:a\npolicies: []\n", 2, 1, "with a space behind the colon"},
	{"an anchor without a name", "version: 1\nname: &\n", 2, 1, "did not find expected alphabetic"},
	{"a negation", onePolicy("when: ! variables.internal\n    key: request.ip"), 5, 11, "put the expression in quotes"},
	{"a negation of parentheses", onePolicy("when: !(request.method == 'GET')\n    key: request.ip"), 5, 11, "put the expression in quotes"},
	{"a negation of a text", onePolicy("key: [!a request.ip]"), 5, 11, "put the expression in quotes"},
	{"a negation that is no tag", onePolicy("when: !request.path.matches(\"/a\")\n    key: request.ip"), 5, 1, "put the expression in quotes"},
	{"quotes in quotes", onePolicy("when: \"request.route == \"/v1\"\"\n    key: request.ip"), 5, 30, "the quotes end before the text does"},
	{"single quotes in such", onePolicy("key: 'request.headers['x']'"), 5, 28, "the quotes end before the text does"},
	{"an operator behind quotes", onePolicy("when: \"a\" == request.ip\n    key: request.ip"), 5, 15, "the quotes end before the text does"},
	{"and behind quotes", onePolicy("when: \"a\" && true\n    key: request.ip"), 5, 15, "the quotes end before the text does"},
	{"a colon in a text", onePolicy("when: request.path.startsWith(\"/a: b\")\n    key: request.ip"), 5, 38, "a second colon"},
	{"a choice in such quotes", onePolicy("when: \"request.path == \"a\" ? true : false\"\n    key: request.ip"), 5, 29, "the quotes end"},
	{"a choice", onePolicy("when: request.size == 1 ? true : false\n    key: request.ip"), 5, 36, "a second colon"},
	{"a field too far to the right", onePolicy("key: request.ip\n      cost: 2"), 6, 7, "the field above it in column 5: indent them alike"},
	{"a text that begins with an asterisk", onePolicy("key: *tenant"), 5, 10, "there is no &tenant"},
	{"a text in Latin 1", "version: 1\nname: caf\xe9\n", 2, 10, "save the file as UTF-8"},
	{"a compressed file", "\x1f\x8b\x08\x00", 1, 1, "compressed by gzip: unpack it first"},
	{"a control character", "version: 1\nname: a\x00b\n", 2, 8, "a control character"},
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
