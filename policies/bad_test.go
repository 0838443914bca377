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
	for _, table := range [][]badFile{badStructure, badYAML, badNames, badExpressions, badSides, badPromotion, badFirst, badClients, badSettle} {
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

// badExpressions are mistakes in expressions, in all styles of YAML: the place, the message of CEL, and the nearest name.
var badExpressions = []badFile{
	// Names.
	{"a typing error in a name", onePolicy("key: request.methodd"), 5, 10, "did you mean request.method?"},
	{"two letters in the wrong order", onePolicy("key: reqeust.ip"), 5, 10, "did you mean request.ip?"},
	{"a name before a function", onePolicy("when: request.rout.startsWith('/')\n    key: request.ip"), 5, 11, "did you mean request.route?"},
	{"a field of the request without request", onePolicy("key: ip"), 5, 10, "did you mean request.ip?"},
	{"a variable without its word", "variables: {tenant: request.user}\n" + onePolicy("key: [tenant]"), 6, 11, "did you mean variables.tenant?"},
	{"a name like no other", onePolicy("key: [request.ip, request.nope]"), 5, 23, "there is no request.nope: there are request.claims"},
	{"a text without quotes", onePolicy("when: request.method == GET\n    key: request.ip"), 5, 29, "there is no GET"},
	{"a function", onePolicy("when: request.path.startWith('/')\n    key: request.ip"), 5, 33, "did you mean startsWith?"},
	{"a function like no other", onePolicy("key: md5(request.ip)"), 5, 13, "there is no function md5"},
	{
		"a variable that stands below", "version: 1\nname: a\nvariables:\n  a: variables.b\n  b: request.ip\n" +
			"policies: [{ name: p, key: variables.a, authoritative: { algorithm: gcra, limit: 1, window: 1s } }]\n",
		4, 6, "there is no variables.b",
	},

	// The places of the message, by the style of the text.
	{"in a block", onePolicy("when: |\n      request.method == 'GET' &&\n      request.size == 'x'\n    key: request.ip"), 7, 20, "(int, string)"},
	{"further in on its line", onePolicy("when: |\n      true &&\n        request.nope == ''\n    key: request.ip"), 7, 9, "request.nope"},
	{"in a folded block", onePolicy("when: >-\n      true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"in a plain text of two lines", onePolicy("when: true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"in a quoted text of two lines", onePolicy("when: \"true &&\n      request.nope == ''\"\n    key: request.ip"), 5, 11, "request.nope"},
	{"in the first of two lines", onePolicy("when: request.nope ==\n      ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"below a line separator", "# a\u2028# b\r# c\r\n" + onePolicy("key: request.nope"), 8, 10, "request.nope"},
	{"behind an escape", onePolicy("when: 'request.path == '''' || request.nope == request.ip'\n    key: request.ip"), 5, 11, "request.nope"},
	{"in quotes", onePolicy("key: 'request.ip + 1'"), 5, 22, "(string, int)"},

	// Messages of CEL.
	{"one sign of equality", onePolicy("when: request.method = 'GET'\n    key: request.ip"), 5, 26, "Syntax error"},
	{"a word of another language", onePolicy("when: request.method == 'GET' and true\n    key: request.ip"), 5, 35, "Syntax error"},
	{"one ] too much", onePolicy("when: 'request.ip in [\"a\"]]'\n    key: request.ip"), 5, 31, "Syntax error"},
	{"a condition that ends too early", onePolicy("when: request.method ==\n    key: request.ip"), 5, 28, "Syntax error"},
	{"a text without its end", onePolicy("when: request.method == 'a\n    key: request.ip"), 5, 29, "Syntax error"},
	{"if", onePolicy("when: if true then true\n    key: request.ip"), 5, 11, "reserved identifier: if"},
	{"too few arguments", onePolicy("when: request.path.startsWith()\n    key: request.ip"), 5, 34, "'startsWith'"},
	{"has of a field", onePolicy("when: has(request.user)\n    key: request.ip"), 5, 15, "undeclared reference to 'request'"},
	{"a bad regular expression", onePolicy("when: request.path.matches('(')\n    key: request.ip"), 5, 32, "invalid matches argument"},
	{"a bad duration", onePolicy("when: duration('soon') > duration('1s')\n    key: request.ip"), 5, 20, "invalid duration argument"},
	{"a list of mixed types", onePolicy("when: request.method in ['GET', 1]\n    key: request.ip"), 5, 0, "'string' but found 'int'"},

	// Types.
	{"wrong type", onePolicy("when: request.path\n    key: request.ip"), 5, 11, "of type string: want bool"},
	{"key of a wrong type", onePolicy("key: request.headers"), 5, 10, "want string or int"},
	{"a key that is a fraction", onePolicy("key: 1.5"), 5, 10, "of type double"},
	{"cost of no number", onePolicy("cost: request.ip\n    key: request.ip"), 5, 11, "of type string: want int"},
	{"negative cost", onePolicy("cost: -1\n    key: request.ip"), 5, 11, "cost: want a whole number, at least 0"},
	{"a cost that is a list", onePolicy("cost: [1]\n    key: request.ip"), 5, 11, "cost: want a whole number"},
	{"an empty condition", onePolicy("when: ''\n    key: request.ip"), 5, 11, "when: want a CEL expression"},
	{"a key that is a mapping", onePolicy("key: {a: request.ip}"), 5, 10, "key: want a CEL expression"},
	{"a list in the list of a key", onePolicy("key: [[request.ip]]"), 5, 11, "key: want a CEL expression"},
	{"empty key list", onePolicy("key: []"), 5, 10, "at least one expression"},
	{"a key of too many parts", onePolicy("key: [" + strings.Repeat("request.ip, ", 17) + "]"), 5, 10, "at most 16"},

	// Headers, whose names expressions see in lower case.
	{"a header", onePolicy("when: 'true'\n    key: request.headers[\"X-Tenant\"]"), 6, 26, `"x-tenant"`},
	{"a header that may be absent", onePolicy("key: request.headers[?\"X-Tenant\"].orValue('')"), 5, 27, `"x-tenant"`},
	{"a header in a condition", onePolicy("when: '\"X-Tenant\" in request.headers'\n    key: request.ip"), 5, 12, `"x-tenant"`},

	// Bounds.
	{
		"a regular expression that is short and slow",
		onePolicy("when: request.path.matches('(a{1,100}){1,10}b')\n    key: request.ip"), 5, 11, "it may cost",
	},
	{
		"the same for a claim", onePolicy("when: request.claims.sub.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same, put together from two texts",
		onePolicy("when: request.path.matches('(a{1,100})' + '{1,10}b')\n    key: request.ip"), 5, 11, "it may cost",
	},
	{
		"loops in loops", onePolicy("when: '[1].all(a, [1].all(b, [1].all(c, a == b)))'\n    key: request.ip"),
		5, 0, "comprehension exceeds nesting limit",
	},
	{
		"an expression that is too long",
		onePolicy("when: request.path == '" + strings.Repeat("x", 5000) + "'\n    key: request.ip"), 5, 11, "4096",
	},
	{
		"an expression that is too deep",
		onePolicy("when: " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + "\n    key: request.ip"),
		5, 0, "recursion limit",
	},
}

// badSides are mistakes in the fields of a side.
var badSides = []badFile{
	{"a candidate that is none", withNone("candidate: none"), 8, 16, "candidate: only the authoritative can be none: leave the candidate out"},
	{"an authoritative that is another word", strings.Replace(withNone(goodCandidate), "none", "nonsense", 1), 7, 20, "or none where there is no limit today"},
	{"an authoritative in quotes that is another word", strings.Replace(withNone(goodCandidate), "none", "'no ne'", 1), 7, 20, "authoritative: want a mapping such as"},
	{"none with fields", side("algorithm: none, limit: 1, window: 1m"), 5, 32, "none is no algorithm: write authoritative: none, without fields"},
	{"a limiter that is none", side("limiter: none"), 5, 30, "none is no name of a limiter: write authoritative: none"},
	{"none without a candidate", withNone("on_error: allow"), 7, 20, "none limits nothing by itself"},
	{"algorithm", side("algorithm: gcrra, limit: 1, window: 1m"), 5, 32, `no algorithm "gcrra": did you mean gcra?`},
	{
		"algorithm beside a bad limit", side("algorithm: gcrra, limit: -3, window: 1m"),
		5, 32, `no algorithm "gcrra": did you mean gcra?`,
	},
	{
		"bad limit beside an algorithm", side("algorithm: gcrra, limit: -3, window: 1m"),
		5, 46, "limit: want a whole number, at least 0",
	},
	{
		"limit that cannot be computed", side("algorithm: gcra, limit: 1000003, window: 365d"),
		5, 20, "too fine to be exact",
	},
	{"a fraction of a limit", side("algorithm: fixed_window, limit: 99.5, window: 1m"), 5, 53, "limit: want a whole number, such as 100"},
	{"a limit in the form of science", side("algorithm: fixed_window, limit: 1e3, window: 1m"), 5, 53, "limit: want a whole number"},
	{"an empty limit", side("algorithm: fixed_window, limit: , window: 1m"), 5, 53, "limit: want a whole number"},
	{"a list as a limit", side("algorithm: fixed_window, limit: [100], window: 1m"), 5, 53, "limit: want a whole number"},
	{
		"burst of a window", side("algorithm: fixed_window, limit: 1, window: 1m, burst: 2"),
		5, 75, "burst belongs to buckets",
	},
	{"limit that no number holds", side("algorithm: gcra, limit: 99999999999999999999, window: 1m"), 5, 45, "is too large"},
	{"no window", side("algorithm: gcra, limit: 1"), 5, 20, "gcra needs a window"},
	{"no limit", side("algorithm: gcra, window: 1m"), 5, 20, "gcra needs a limit"},
	{"neither", side("limit: 1, window: 1m"), 5, 20, "either an algorithm or a limiter"},
	{"a typing error in a side", side("algorithms: gcra, limit: 1, window: 1m"), 5, 21, "did you mean algorithm?"},
	{
		"an algorithm and a limiter", side("algorithm: gcra, limiter: mine, limit: 1, window: 1m"),
		5, 20, "either an algorithm or a limiter",
	},
	{"a text without end", side("algorithm: gcra, limit: 1, window: 1m, id: " + strings.Repeat("x", 1001)), 5, 64,
		"id: a text of 1001 bytes: want at most 1000"},
	{"an algorithm without a name", side("algorithm: , limit: 1, window: 1m"), 5, 32, "algorithm: want text"},
	{
		"a limit of zero of a custom limiter", side("limiter: mine, limit: 0, window: 1m"),
		5, 20, "a limit of 0 is for our own algorithms",
	},
	{
		"a limit that is negative", side("algorithm: gcra, limit: -5, window: 1m"),
		5, 45, "limit: want a whole number, at least 0",
	},
	{
		"a limit with a fraction", side("algorithm: gcra, limit: 1.5, window: 1m"),
		5, 45, "want a whole number",
	},
	{"a limit beyond counting", side("algorithm: gcra, limit: 99999999999999999999, window: 1m"), 5, 45, "limit: "},
	{
		"a limit of another type", side("algorithm: gcra, limit: request.path, window: 1m"),
		5, 45, "of type string: want int",
	},
	{"a limit that is a list", side("algorithm: gcra, limit: [1], window: 1m"), 5, 45, "limit: want a whole number"},
	{
		"a window without a unit", side("algorithm: gcra, limit: 1, window: 60"),
		5, 56, "window: want a duration above 0",
	},
	{
		"a window of an unknown unit", side("algorithm: gcra, limit: 1, window: 1w"),
		5, 56, "window: want a duration above 0",
	},
	{"a window of nothing", side("algorithm: gcra, limit: 1, window: 0s"), 5, 56, "window: want a duration above 0"},
	{
		"a window beyond computing", side("algorithm: fixed_window, limit: 1, window: 99999d"),
		5, 20, "window must be at most",
	},
	{
		"a burst of zero", side("algorithm: gcra, limit: 1, window: 1m, burst: 0"),
		5, 67, "burst: want a whole number, at least 1",
	},
	{"a shaper without a burst", side("algorithm: leaky_bucket, limit: 1, window: 1m"), 5, 20, "burst is missing"},
	{
		"a store with a bad name", side("algorithm: gcra, limit: 1, window: 1m, store: 'a b'"),
		5, 67, "store: want 1 to 100 letters",
	},
	{"a store without sync", side("algorithm: gcra, limit: 1, window: 1m, store: { redis: a }"), 5, 67, "store: want sync"},
	{
		"an unknown field of a store", side("algorithm: gcra, limit: 1, window: 1m, store: { sinc: 1s }"),
		5, 69, "did you mean sync",
	},
	{"a label that is no name", side("algorithm: gcra, limit: 1, window: 1m}\n    labels: {a-b: x"), 6, 14, "is not a name"},
	{"a label twice", side("algorithm: gcra, limit: 1, window: 1m}\n    labels: {a: x, a: y"), 6, 20, "already"},
	{"a label of many bytes", side("algorithm: gcra, limit: 1, window: 1m}\n    labels: {a: " + strings.Repeat("x", 129)), 6, 17, "at most 128"},
	{"a sync of a custom limiter", side("limiter: mine, store: { sync: 1s }"), 5, 20, "leave out the store"},
	{
		"an interval that is too short", side("algorithm: gcra, limit: 1, window: 1m, store: { sync: 1ms }"),
		5, 75, "sync: want a duration from 10ms to 10s",
	},
	{
		"an interval that is too long for the window", side("algorithm: gcra, limit: 1, window: 1s, store: { sync: 200ms }"),
		5, 67, "at least 10 times sync",
	},
	{
		"a synchronized log", side("algorithm: sliding_window_log, limit: 1, window: 1m, store: { sync: 1s }"),
		5, 81, "cannot be synchronized: each of its entries",
	},
	{"per_process of an algorithm", side("algorithm: gcra, limit: 1, window: 1m, per_process: true"), 5, 73, "per_process is for a custom limiter"},
	{"per_process without a limit", side("limiter: mine, window: 1m, per_process: true"), 5, 61, "needs the limit of one instance"},
	{"per_process without a window", side("limiter: mine, limit: 1, per_process: true"), 5, 59, "needs the limit of one instance"},
	{"per_process of another type", side("limiter: mine, limit: 1, window: 1m, per_process: 3"), 5, 71, "want true or false"},
	{"a store of a custom limiter", side("limiter: mine, store: other"), 5, 20, "leave out the store"},
	{"adaptive without a rule", side("algorithm: gcra, limit: 1, window: 1m, adaptive: true"), 5, 70, "adaptive: want"},
	{"no signal", adaptiveSide("every: 30s"), 5, 70, `adaptive needs "signal"`},
	{"an unknown signal", adaptiveSide("signal: cpu"), 5, 80, "adaptive: signal: want latency_p99 or error_rate or saturation"},
	{"an error rate in seconds", adaptiveSide("signal: error_rate, levels: [{ above: 1s, limit: 50% }]"), 5, 110, "want a percentage"},
	{"a level of everything", adaptiveSide("signal: latency_p99, levels: [{ above: 1s, limit: 100% }]"), 5, 122, "from 2% to 99%"},
	{"a level in another unit", adaptiveSide("signal: latency_p99, levels: [{ above: 50%, limit: 50% }]"), 5, 111, "want a duration above 0"},
	{"a level of hours", adaptiveSide("signal: latency_p99, levels: [{ above: 1h, limit: 50% }]"), 5, 111, "want 2ms to 2m"},
	{"a level below a bucket", adaptiveSide("signal: latency_p99, levels: [{ above: 1ms, limit: 50% }]"), 5, 111, "want 2ms to 2m"},
	{"a saturation in seconds", adaptiveSide("signal: saturation, levels: [{ above: 1s, limit: 50% }]"), 5, 110, "want a percentage"},
	{"levels that rise", adaptiveSide("signal: latency_p99, levels: [{ above: 1s, limit: 25% }, { above: 2s, limit: 50% }]"),
		5, 129, "a smaller limit than the one before"},
	{"no levels", adaptiveSide("signal: latency_p99, levels: []"), 5, 101, "want 1 to 8"},
	{"a share of nothing", adaptiveSide("signal: error_rate, levels: [{ above: 0.00001%, limit: 50% }]"), 5, 110, "from 0.0001% on"},
	{"changes too often", adaptiveSide("signal: latency_p99, every: 5s"), 5, 100, "want 20s to 1h"},
	{"an adaptive custom limiter", side("limiter: mine, adaptive: { signal: latency_p99 }"), 5, 46, "for our own algorithms"},
	{
		"an adaptive limit of an expression", side("algorithm: gcra, limit: request.size, window: 1m, adaptive: { signal: latency_p99 }"),
		5, 81, "for a limit that an expression gives",
	},
}

// badPromotion are mistakes in a promotion section.
var badPromotion = []badFile{
	{"threshold without a sign", promotion("divergence: 0.02"), 6, 29, "want a percentage"},
	{"threshold of everything", promotion("newly_denied: 100%"), 6, 31, "below 100%"},
	{"a canary without signs", promotion("canary: [5, 25]"), 6, 26, "canary: want rising percentages"},
	{"falling canary", promotion("canary: [10%, 5%]"), 6, 31, "rising percentages"},
	{"seconds of soak", promotion("soak: 90s"), 6, 23, "whole minutes"},
	{"mode", promotion("mode: auto"), 6, 23, "want manual or automatic"},
	{
		"zone", promotion("change_window: {days: [mon], from: '9:00', to: '10:00', zone: Mars}"),
		6, 79, `no time zone "Mars"`,
	},
	{
		"an expected difference without an end",
		promotion("expected: [{when: 'true', direction: newly_denied, owner: a}]"),
		6, 28, `an expected difference needs "until"`,
	},
	{
		"an expected difference of an unknown direction",
		promotion("expected: [{when: 'true', direction: worse, until: 2999-01-01, owner: a}]"),
		6, 54, "want newly_denied or newly_allowed",
	},
	{
		"a bad end", promotion("expected: [{when: 'true', direction: newly_denied, until: soon, owner: a}]"),
		6, 75, "such as 2027-03-31",
	},
	{
		"a typing error in an expected condition",
		promotion("expected: [{when: request.usr == '', direction: newly_denied, until: 2999-01-01, owner: a}]"),
		6, 35, "did you mean request.user?",
	},
	{"a typing error in promotion", promotion("soaks: 48h"), 6, 17, "did you mean soak?"},
	{
		"a typing error in a change window", promotion("change_window: {day: [mon], from: '9:00', to: '10:00'}"),
		6, 33, "did you mean days?",
	},
	{"a negative threshold", promotion("divergence: -2%"), 6, 29, "want a percentage"},
	{"no canary step", promotion("canary: []"), 6, 25, "canary: want at least one step"},
	{"a canary step over all", promotion("canary: [10%, 110%]"), 6, 31, "rising percentages"},
	{"no denials needed", promotion("min_denials: 0"), 6, 30, "min_denials: want a whole number, at least 1"},
	{
		"an unknown day", promotion("change_window: {days: [monday], from: '9:00', to: '10:00'}"),
		6, 40, "days: want some of",
	},
	{"no day", promotion("change_window: {days: [], from: '9:00', to: '10:00'}"), 6, 39, "days: want at least one"},
	{
		"a time of day beyond 24:00", promotion("change_window: {days: [mon], from: '25:00', to: '10:00'}"),
		6, 52, "from: want a time of day",
	},
	{
		"a change window that ends before it begins", promotion("change_window: {days: [mon], from: '11:00', to: '10:00'}"),
		6, 32, "must be later",
	},
	{
		"a change window that ends at midnight", promotion("change_window: {days: [mon], from: '22:00', to: '00:00'}"),
		6, 32, "must be later in the day than \"from\"; midnight at its end is \"24:00\"",
	},
	{
		"a change window without a length", promotion("change_window: {days: [mon], from: '00:00', to: '00:00'}"),
		6, 32, "must be later",
	},
	{"a change window without an end", promotion("change_window: {days: [mon], from: '11:00'}"), 6, 32, `needs "to"`},
}

// adaptiveSide is a file whose authoritative has an adaptive limit.
func adaptiveSide(fields string) string {
	return side("algorithm: gcra, limit: 1, window: 1m, adaptive: { " + fields + " }")
}
