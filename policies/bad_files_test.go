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
	{"a tab", "version: 1\n\tname: a\n", 2, 1, "not YAML: a tab in the indentation"},
	{"a tab in the first line", "\tversion: 1\n", 1, 1, "a tab in the indentation"},
	{"a tab before an item", "version: 1\npolicies:\n\t- name: p\n", 3, 1, "a tab in the indentation"},
	{"a tab below a value", "version: 1\npolicies:\n  - name: p\n\t  key: x\n", 4, 1, "a tab in the indentation"},
	{"a tab after spaces", "version: 1\npolicies:\n  - name: p\n    key: x\n  \tcost: 3\n", 5, 3, "a tab in the indentation"},
	{"a tab in a text of lines", "version: 1\nname: |\n  x\n\ty\n", 4, 1, "a tab in the indentation"},
	{"a sign without a meaning", "version: 1\nname: @a\n", 2, 1, "cannot start any token"},
	{"a list that is not closed", "version: 1\ndata: {a: 1\nname: a\n", 2, 1, "is not closed"},
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
	{"a field too far to the right", onePolicy("key: request.ip\n      cost: 2"), 6, 1, "further to the right"},
	{"a text that begins with an asterisk", onePolicy("key: *tenant"), 5, 10, "there is no &tenant"},
	{"a text in Latin 1", "version: 1\nname: caf\xe9\n", 2, 10, "save the file as UTF-8"},
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

// badExpressions are mistakes in expressions, in all styles of YAML.
var badExpressions = []badFile{
	{
		"a regular expression that is short and slow",
		onePolicy("when: request.path.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same for a claim", onePolicy("when: request.claims.sub.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same, put together from two texts",
		onePolicy("when: request.path.matches('(a{1,100})' + '{1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{"a field of the request without request", onePolicy("key: ip"), 5, 10, "did you mean request.ip?"},
	{
		"a text whose quotes are YAML's alone", onePolicy("key: \"everyone\""),
		5, 11, `if it is a text, quote it within the quotes of YAML: '"everyone"'`,
	},
	{
		"one sign of equality", onePolicy("when: request.method = 'GET'\n    key: request.ip"),
		5, 26, "write == to compare",
	},
	{"and", onePolicy("when: request.method == 'GET' and true\n    key: request.ip"), 5, 35, "write &&"},
	{
		"a header that is not in lower case", onePolicy("when: 'true'\n    key: request.headers[\"X-Tenant\"]"),
		6, 26, `expressions see header names in lower case: write "x-tenant"`,
	},
	{
		"a header that is not in lower case and may be absent",
		onePolicy("key: request.headers[?\"X-Tenant\"].orValue('')"),
		5, 27, `write "x-tenant"`,
	},
	{
		"a header that is not in lower case in a condition",
		onePolicy("when: '\"X-Tenant\" in request.headers'\n    key: request.ip"),
		5, 12, `write "x-tenant"`,
	},
	{
		"typing error in a name", onePolicy("key: request.methodd"),
		5, 10, "there is no request.methodd: did you mean request.method?",
	},
	{
		"second line of a block",
		onePolicy("when: |\n      request.method == 'GET' &&\n      request.size == 'x'\n    key: request.ip"),
		7, 20, "== does not take int and string: both must be of one type",
	},
	{
		"further in on a block's line",
		onePolicy("when: |\n      true &&\n        request.nope == ''\n    key: request.ip"),
		7, 9, "there is no request.nope",
	},
	{
		"in a folded block", onePolicy("when: >-\n      true &&\n      request.nope == ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in a plain text of two lines", onePolicy("when: true &&\n      request.nope == ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in a quoted text of two lines", onePolicy("when: \"true &&\n      request.nope == ''\"\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in the first of two lines", onePolicy("when: request.nope ==\n      ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"below a line separator", "# a\u2028# b\r# c\r\n" + onePolicy("key: request.nope"),
		8, 10, "there is no request.nope",
	},
	{
		"behind an escape", onePolicy("when: 'request.path == '''' || request.nope == request.ip'\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{"a key of too many parts", onePolicy("key: [" + strings.Repeat("request.ip, ", 17) + "]"), 5, 10, "at most 16"},
	{"one ] too much", onePolicy("when: 'request.ip in [\"a\"]]'\n    key: request.ip"), 5, 31, "the expression has ended before ]"},
	{"a parenthesis too few", onePolicy("when: '(true'\n    key: request.ip"), 5, 17, ") is missing at the end"},
	{"typographic quotes", onePolicy("when: request.path == “a”\n    key: request.ip"), 5, 27, "“ has no meaning: write \""},
	{"AND", onePolicy("when: true AND true\n    key: request.ip"), 5, 16, "before AND: write &&"},
	{"another default", onePolicy("key: request.user ?? request.ip"), 5, 24, "write orValue"},
	{"a word in front of a text", onePolicy("when: request.path startsWith \"/\"\n    key: request.ip"), 5, 24, "it is called"},
	{"a text without quotes", onePolicy("when: request.method == GET\n    key: request.ip"), 5, 29, `a text needs quotes, "GET"`},
	{"results of two types", onePolicy("cost: 'true ? 10 : 1.5'\n    key: request.ip"), 5, 0, "both results of ? : must be of one type"},
	{"a text as a condition", onePolicy("when: request.method == 'A' || 'B'\n    key: request.ip"), 5, 0, "compare each of several texts"},
	{"if", onePolicy("when: if true then true\n    key: request.ip"), 5, 11, "a choice is condition ? one : other"},
	{
		"a header with a dash behind a dot", onePolicy("when: request.headers.x-tenant == 'a'\n    key: request.ip"),
		5, 11, `write request.headers[?"x-tenant"].orValue("none")`,
	},
	{
		"a typing error before a function", onePolicy("when: request.rout.startsWith('/')\n    key: request.ip"),
		5, 11, "there is no request.rout: did you mean request.route?",
	},
	{"in quotes", onePolicy("key: 'request.ip + 1'"), 5, 22, "+ does not take string and int"},
	{"wrong type", onePolicy("when: request.path\n    key: request.ip"), 5, 11, "of type string: want bool"},
	{"cost of no number", onePolicy("cost: request.ip\n    key: request.ip"), 5, 11, "of type string: want int"},
	{"negative cost", onePolicy("cost: -1\n    key: request.ip"), 5, 11, "cost: want a whole number, at least 0"},
	{
		"a variable without its word", "variables: {tenant: request.user}\n" + onePolicy("key: [tenant]"),
		6, 11, "did you mean variables.tenant?",
	},
	{"has of a field", onePolicy("when: has(request.user)\n    key: a"), 5, 0, `write request.user != ""`},
	{"in of a text", onePolicy("when: request.method in 'POST'\n    key: a"), 5, 0, "in takes a list or a table"},
	{"a default of an entry that must be there", onePolicy("key: request.headers['x'].orValue('a')"), 5, 0, "it needs the optional access"},
	{"an entry without its default", onePolicy("when: request.headers[?'x'] == 'b'\n    key: a"), 5, 0, "by .orValue"},
	{"one length of networks", onePolicy("key: ipGroup(request.ip, 64)"), 5, 0, "ipGroup(request.ip, 24, 56)"},
	{"a null", onePolicy("when: request.user != null\n    key: a"), 5, 0, `a text that is absent is ""`},
	{"a function of another language", onePolicy("when: len(request.user) > 3\n    key: a"), 5, 0, "write size(...)"},
	{"a comma in a number", onePolicy("key: request.ip\n    promotion: { min_denials: 1,000 }"), 6, 33, "a number has no comma"},
	{"a colon without its space", onePolicy("key: request.ip\n    promotion: { dwell:1h }"), 6, 18, "a space is missing behind the colon"},
	{"braces around a key", onePolicy("key: {request.ip}"), 5, 10, "YAML takes { for a mapping"},
	{"a percentage without its sign", onePolicy("key: request.ip\n    promotion: { newly_denied: 20 }"), 6, 32, "such as 20%"},
	{"two letters in the wrong order", onePolicy("key: request.ip\n    wehn: 'true'"), 6, 5, "did you mean when?"},
	{"two letters of a word in front of a dot", onePolicy("key: reqeust.ip"), 5, 10, "did you mean request.ip?"},
	{"a list in the list of a key", onePolicy("key: [[request.ip]]"), 5, 11, "write it without these brackets"},
	{"a negation in words", onePolicy("when: NOT request.path == 'not'\n    key: request.ip"), 5, 11, "NOT is no operator: write !(...)"},
	{"a negation of a part", onePolicy("when: 'true && not (request.path == \"/a\")'\n    key: request.ip"), 5, 20, "not is no operator"},
	{"another mistake beside the word", onePolicy("when: 'request.path == \"not\" + 1'\n    key: request.ip"), 5, 34, "+ does not take"},
	{"key of a wrong type", onePolicy("key: request.headers"), 5, 10, "want string or int"},
	{"empty key list", onePolicy("key: []"), 5, 10, "at least one expression"},
	{
		"bad element of a key", onePolicy("key: [request.ip, request.nope]"),
		5, 23, "there is no request.nope: the names are request.method",
	},
	{
		"loops in loops", onePolicy("when: '[1].all(a, [1].all(b, [1].all(c, a == b)))'\n    key: request.ip"),
		5, 0, "comprehension exceeds nesting limit",
	},
	{"an empty condition", onePolicy("when: ''\n    key: request.ip"), 5, 11, "when: want a CEL expression"},
	{
		"a condition that ends too early", onePolicy("when: request.method ==\n    key: request.ip"),
		5, 28, "Syntax error: the expression ends too early",
	},
	{"a text without its end", onePolicy("when: request.method == 'a\n    key: request.ip"), 5, 29, "write ' at its end"},
	{
		"an unknown function", onePolicy("when: request.path.startWith('/')\n    key: request.ip"),
		5, 33, "startWith",
	},
	{
		"too few arguments", onePolicy("when: request.path.startsWith()\n    key: request.ip"),
		5, 34, "there is no startsWith for string.()",
	},
	{
		"a bad regular expression", onePolicy("when: request.path.matches('(')\n    key: request.ip"),
		5, 32, "invalid matches argument",
	},
	{
		"a bad duration", onePolicy("when: duration('soon') > duration('1s')\n    key: request.ip"),
		5, 20, "invalid duration argument",
	},
	{
		"an expression that is too long",
		onePolicy("when: request.path == '" + strings.Repeat("x", 5000) + "'\n    key: request.ip"),
		5, 0, "size exceeds limit",
	},
	{
		"an expression that is too deep",
		onePolicy("when: " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + "\n    key: request.ip"),
		5, 0, "recursion limit",
	},
	{
		"a list of mixed types", onePolicy("when: request.method in ['GET', 1]\n    key: request.ip"),
		5, 0, "expected type 'string' but found 'int'",
	},
	{"a key that is a fraction", onePolicy("key: 1.5"), 5, 10, "of type double"},
	{"a key that is a mapping", onePolicy("key: {a: request.ip}"), 5, 10, "key: want a CEL expression"},
	{"a cost that is a list", onePolicy("cost: [1]\n    key: request.ip"), 5, 11, "cost: want a whole number"},
}
