package policies_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// One file for each way to be wrong, with the place of the problem.
func TestBadFiles(t *testing.T) {
	tests := []struct {
		name, text   string
		line, column int
		want         string
	}{
		{"empty", "", 1, 1, "the file is empty"},
		{"not YAML", "version: 1\n  name: [", 2, 1, "not YAML"},
		{"a list", "- version: 1", 1, 1, "the file: want a mapping"},
		{"a regular expression that is short and slow", onePolicy("when: request.path.matches('(a{1,100}){1,10}b')\n    key: request.ip"), 5, 11, "it may cost"},
		{"the same for a claim", onePolicy("when: request.claims.sub.matches('(a{1,100}){1,10}b')\n    key: request.ip"), 5, 11, "it may cost"},
		{"the same put together", onePolicy("when: request.path.matches('(a{1,100})' + '{1,10}b')\n    key: request.ip"), 5, 11, "it may cost"},
		{"a field without what it is of", onePolicy("key: ip"), 5, 10, "did you mean request.ip?"},
		{"a text that only YAML has quoted", onePolicy("key: \"everyone\""), 5, 11, `if it is a text, quote it within the quotes of YAML: '"everyone"'`},
		{"one sign of equality", onePolicy("when: request.method = 'GET'\n    key: request.ip"), 5, 26, "write == to compare"},
		{"and", onePolicy("when: request.method == 'GET' and true\n    key: request.ip"), 5, 35, "write &&"},
		{"a header that is not in lower case", onePolicy("when: 'true'\n    key: request.headers[\"X-Tenant\"]"), 6, 26, `expressions see header names in lower case: write "x-tenant"`},
		{"a header that is not in lower case and may be absent", onePolicy("key: request.headers[?\"X-Tenant\"].orValue('')"), 5, 27, `write "x-tenant"`},
		{"a header that is not in lower case in a condition", onePolicy("when: '\"X-Tenant\" in request.headers'\n    key: request.ip"), 5, 12, `write "x-tenant"`},
		{"two documents", "version: 1\n---\nversion: 1", 2, 1, "a second document"},
		{"unknown field", "version: 1\nname: a\npolcies: []\n", 3, 1, `the file has no field "polcies": did you mean policies?`},
		{"duplicate field", "version: 1\nname: a\nname: b\n", 3, 1, `the file has "name" twice`},
		{"no policies", "version: 1\nname: a\n", 1, 1, `the file needs "policies"`},
		{"no policy in the list", "version: 1\nname: a\npolicies: []\n", 3, 11, "want at least one"},
		{"version", "version: 2\nname: a\npolicies: []\n", 1, 10, "version: want 1"},
		{"name", "version: 1\nname: a:b\npolicies: []\n", 2, 7, "name: want 1 to 100 letters"},
		{"two of one name", onePolicy("key: request.ip") + strings.TrimPrefix(onePolicy("key: request.ip"), "version: 1\nname: test\npolicies:\n"), 8, 5, `two policies are named "p"`},
		{"no key", "version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {algorithm: gcra, limit: 1, window: 1m}\n", 4, 5, `a policy needs "key"`},
		{"typing error in a name", onePolicy("key: request.methodd"), 5, 10, "there is no request.methodd: did you mean request.method?"},
		{"second line of a block", onePolicy("when: |\n      request.method == 'GET' &&\n      request.size == 'x'\n    key: request.ip"), 7, 20, "found no matching overload"},
		{"further in on a block's line", onePolicy("when: |\n      true &&\n        request.nope == ''\n    key: request.ip"), 7, 9, "there is no request.nope"},
		{"in a folded block", onePolicy("when: >-\n      true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "there is no request.nope"},
		{"in a plain text of two lines", onePolicy("when: true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "there is no request.nope"},
		{"in a quoted text of two lines", onePolicy("when: \"true &&\n      request.nope == ''\"\n    key: request.ip"), 5, 11, "there is no request.nope"},
		{"in the first of two lines", onePolicy("when: request.nope ==\n      ''\n    key: request.ip"), 5, 11, "there is no request.nope"},
		{"below a line separator", "# a\u2028# b\r# c\r\n" + onePolicy("key: request.nope"), 8, 10, "there is no request.nope"},
		{"behind an escape", onePolicy("when: 'request.path == '''' || request.nope == request.ip'\n    key: request.ip"), 5, 11, "there is no request.nope"},
		{"a key of too many parts", onePolicy("key: [" + strings.Repeat("request.ip, ", 17) + "]"), 5, 10, "at most 16"},
		{"in quotes", onePolicy("key: 'request.ip + 1'"), 5, 22, "found no matching overload"},
		{"wrong type", onePolicy("when: request.path\n    key: request.ip"), 5, 11, "of type string: want bool"},
		{"cost of no number", onePolicy("cost: request.ip\n    key: request.ip"), 5, 11, "of type string: want int"},
		{"negative cost", onePolicy("cost: -1\n    key: request.ip"), 5, 11, "cost: want a whole number, at least 0"},
		{"key of a wrong type", onePolicy("key: request.headers"), 5, 10, "want string or int"},
		{"empty key list", onePolicy("key: []"), 5, 10, "at least one expression"},
		{"bad element of a key", onePolicy("key: [request.ip, request.nope]"), 5, 23, "there is no request.nope: the names are request.method"},
		{"loops in loops", onePolicy("when: '[1].all(a, [1].all(b, [1].all(c, a == b)))'\n    key: request.ip"), 5, 0, "comprehension exceeds nesting limit"},
		{"store failure", onePolicy("key: request.ip\n    on_store_failure: panic"), 6, 23, "want local or allow or deny"},
		{"threshold without a sign", onePolicy("key: request.ip\n    promotion: {divergence: 0.02}"), 6, 29, "want a percentage"},
		{"threshold of everything", onePolicy("key: request.ip\n    promotion: {newly_denied: 100%}"), 6, 31, "below 100%"},
		{"falling canary", onePolicy("key: request.ip\n    promotion: {canary: [10%, 5%]}"), 6, 31, "rising percentages"},
		{"seconds of soak", onePolicy("key: request.ip\n    promotion: {soak: 90s}"), 6, 23, "whole minutes"},
		{"mode", onePolicy("key: request.ip\n    promotion: {mode: auto}"), 6, 23, "want manual or automatic"},
		{"zone", onePolicy("key: request.ip\n    promotion: {change_window: {days: [mon], from: '9:00', to: '10:00', zone: Mars}}"), 6, 79, `no time zone "Mars"`},
		{"an expected difference without an end", onePolicy("key: request.ip\n    promotion: {expected: [{when: 'true', direction: newly_denied, owner: a}]}"), 6, 28, `an expected difference needs "until"`},
		{"an expected difference of another kind", onePolicy("key: request.ip\n    promotion: {expected: [{when: 'true', direction: worse, until: 2999-01-01, owner: a}]}"), 6, 54, "want newly_denied or newly_allowed"},
		{"an end that is no day", onePolicy("key: request.ip\n    promotion: {expected: [{when: 'true', direction: newly_denied, until: soon, owner: a}]}"), 6, 75, "such as 2027-03-31"},
		{"a typing error in what is expected", onePolicy("key: request.ip\n    promotion: {expected: [{when: request.usr == '', direction: newly_denied, until: 2999-01-01, owner: a}]}"), 6, 35, "did you mean request.user?"},
		{"rule for errors", onePolicy("key: request.ip\n    on_error: local"), 6, 15, "want allow or deny"},
		{"algorithm", side("algorithm: gcrra, limit: 1, window: 1m"), 5, 32, `no algorithm "gcrra": did you mean gcra?`},
		{"limit that cannot be computed", side("algorithm: gcra, limit: 1000003, window: 365d"), 5, 20, "too fine to be exact"},
		{"burst of a window", side("algorithm: fixed_window, limit: 1, window: 1m, burst: 2"), 5, 20, "burst belongs to buckets"},
		{"no window", side("algorithm: gcra, limit: 1"), 5, 20, "gcra needs a window"},
		{"no limit", side("algorithm: gcra, window: 1m"), 5, 20, "gcra needs a limit"},
		{"neither", side("limit: 1, window: 1m"), 5, 20, "either an algorithm or a limiter"},
		{"same id", onePolicy("key: request.ip\n    candidate: {algorithm: fixed_window, limit: 2, window: 1m}\n#"), 4, 5, `both sides of p have the id "fixed_window"`},
		{"no version", "name: a\npolicies: [{name: p, key: request.ip, authoritative: {algorithm: gcra, limit: 1, window: 1m}}]\n", 1, 1, `the file needs "version"`},
		{"version of another type", "version: [1]\nname: a\npolicies: []\n", 1, 10, "version: want 1"},
		{"an empty name", "version: 1\nname: ''\npolicies: []\n", 2, 7, "name: want 1 to 100"},
		{"a name of another type", "version: 1\nname: {a: b}\npolicies: []\n", 2, 7, "name: want 1 to 100"},
		{"policies that are no list", "version: 1\nname: a\npolicies: {p: 1}\n", 3, 11, "policies: want a list"},
		{"a policy that is no mapping", "version: 1\nname: a\npolicies: [p]\n", 3, 12, "a policy: want a mapping"},
		{"a policy without a name", "version: 1\nname: a\npolicies:\n  - key: request.ip\n    authoritative: {algorithm: gcra, limit: 1, window: 1m}\n", 4, 5, `a policy needs "name"`},
		{"a policy with a bad name", "version: 1\nname: a\npolicies:\n  - name: 'a b'\n", 4, 11, "name: want 1 to 100"},
		{"no authoritative", "version: 1\nname: a\npolicies:\n  - name: p\n    key: request.ip\n", 4, 5, `a policy needs "authoritative"`},
		{"a typing error in a field", onePolicy("keyy: request.ip"), 5, 5, "did you mean key?"},
		{"a typing error in a side", side("algorithms: gcra, limit: 1, window: 1m"), 5, 21, "did you mean algorithm?"},
		{"a typing error in promotion", onePolicy("key: request.ip\n    promotion: {soaks: 48h}"), 6, 17, "did you mean soak?"},
		{"a typing error in a change window", onePolicy("key: request.ip\n    promotion: {change_window: {day: [mon], from: '9:00', to: '10:00'}}"), 6, 33, "did you mean days?"},
		{"a side that is no mapping", onePolicy("key: request.ip\n    on_store_failure: local") + "    authoritative: gcra\n", 9, 5, "twice"},
		{"a candidate that is no mapping", "version: 1\nname: a\npolicies:\n  - {name: p, key: request.ip, authoritative: {algorithm: gcra, limit: 1, window: 1m}, candidate: gcra}\n", 4, 99, "candidate: want a mapping"},
		{"an algorithm twice over", side("algorithm: gcra, limiter: mine, limit: 1, window: 1m"), 5, 20, "either an algorithm or a limiter"},
		{"an algorithm of no name", side("algorithm: , limit: 1, window: 1m"), 5, 32, "algorithm: want text"},
		{"a limit of zero", side("algorithm: gcra, limit: 0, window: 1m"), 5, 45, "limit: want a whole number, at least 1"},
		{"a limit that is negative", side("algorithm: gcra, limit: -5, window: 1m"), 5, 45, "limit: want a whole number, at least 1"},
		{"a limit that is no whole number", side("algorithm: gcra, limit: 1.5, window: 1m"), 5, 45, "of type double: want int"},
		{"a limit beyond counting", side("algorithm: gcra, limit: 99999999999999999999, window: 1m"), 5, 45, "limit: "},
		{"a limit of another type", side("algorithm: gcra, limit: request.path, window: 1m"), 5, 45, "of type string: want int"},
		{"a limit that is a list", side("algorithm: gcra, limit: [1], window: 1m"), 5, 45, "limit: want a CEL expression"},
		{"a window without a unit", side("algorithm: gcra, limit: 1, window: 60"), 5, 56, "window: want a duration above 0"},
		{"a window of a unit that is none", side("algorithm: gcra, limit: 1, window: 1w"), 5, 56, "window: want a duration above 0"},
		{"a window of nothing", side("algorithm: gcra, limit: 1, window: 0s"), 5, 56, "window: want a duration above 0"},
		{"a window beyond computing", side("algorithm: fixed_window, limit: 1, window: 99999d"), 5, 20, "window must be at most"},
		{"a burst of zero", side("algorithm: gcra, limit: 1, window: 1m, burst: 0"), 5, 67, "burst: want a whole number, at least 1"},
		{"a shaper without a burst", side("algorithm: leaky_bucket, limit: 1, window: 1m"), 5, 20, "burst is missing"},
		{"a store that is no name", side("algorithm: gcra, limit: 1, window: 1m, store: 'a b'"), 5, 67, "store: want 1 to 100 letters"},
		{"a store of a foreign limiter", side("limiter: mine, store: other"), 5, 20, "leave out the store"},
		{"what is not built", side("algorithm: gcra, limit: 1, window: 1m, adaptive: true"), 5, 70, "not available in this version"},
		{"an empty condition", onePolicy("when: ''\n    key: request.ip"), 5, 11, "when: want a CEL expression"},
		{"a condition that does not parse", onePolicy("when: request.method ==\n    key: request.ip"), 5, 28, "Syntax error"},
		{"a text that is not closed", onePolicy("when: request.method == 'a\n    key: request.ip"), 5, 29, "Syntax error"},
		{"a function that is none", onePolicy("when: request.path.startWith('/')\n    key: request.ip"), 5, 33, "startWith"},
		{"too few arguments", onePolicy("when: request.path.startsWith()\n    key: request.ip"), 5, 34, "no matching overload"},
		{"a regular expression that is none", onePolicy("when: request.path.matches('(')\n    key: request.ip"), 5, 32, "invalid matches argument"},
		{"a duration that is none", onePolicy("when: duration('soon') > duration('1s')\n    key: request.ip"), 5, 20, "invalid duration argument"},
		{"an expression that is too long", onePolicy("when: request.path == '" + strings.Repeat("x", 5000) + "'\n    key: request.ip"), 5, 0, "size exceeds limit"},
		{"an expression that is too deep", onePolicy("when: " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + "\n    key: request.ip"), 5, 0, "recursion limit"},
		{"a list of mixed types", onePolicy("when: request.method in ['GET', 1]\n    key: request.ip"), 5, 0, "expected type 'string' but found 'int'"},
		{"a key that is a number with a point", onePolicy("key: 1.5"), 5, 10, "of type double"},
		{"a key that is a mapping", onePolicy("key: {a: request.ip}"), 5, 10, "key: want a CEL expression"},
		{"a cost that is a list", onePolicy("cost: [1]\n    key: request.ip"), 5, 11, "cost: want a CEL expression"},
		{"a rule that is none", onePolicy("key: request.ip\n    promotion: {rule: luck}"), 6, 23, "rule: want evidence or simple"},
		{"a negative threshold", onePolicy("key: request.ip\n    promotion: {divergence: -2%}"), 6, 29, "want a percentage"},
		{"no canary step", onePolicy("key: request.ip\n    promotion: {canary: []}"), 6, 25, "canary: want at least one step"},
		{"a canary step over all", onePolicy("key: request.ip\n    promotion: {canary: [10%, 110%]}"), 6, 31, "rising percentages"},
		{"no denials needed", onePolicy("key: request.ip\n    promotion: {min_denials: 0}"), 6, 30, "min_denials: want a whole number, at least 1"},
		{"a day that is none", onePolicy("key: request.ip\n    promotion: {change_window: {days: [monday], from: '9:00', to: '10:00'}}"), 6, 40, "days: want some of"},
		{"no day", onePolicy("key: request.ip\n    promotion: {change_window: {days: [], from: '9:00', to: '10:00'}}"), 6, 39, "days: want at least one"},
		{"a time that is none", onePolicy("key: request.ip\n    promotion: {change_window: {days: [mon], from: '25:00', to: '10:00'}}"), 6, 52, "from: want a time of day"},
		{"a window that ends before it begins", onePolicy("key: request.ip\n    promotion: {change_window: {days: [mon], from: '11:00', to: '10:00'}}"), 6, 32, "must be later"},
		{"a change window without an end", onePolicy("key: request.ip\n    promotion: {change_window: {days: [mon], from: '11:00'}}"), 6, 32, `needs "to"`},
		{"data of a bad name", "data: {'a-b': 1}\n" + onePolicy("key: request.ip"), 1, 8, "is not a name for expressions"},
		{"data of a deep table", "data: {a: {b: {c: 1}}}\n" + onePolicy("key: request.ip"), 1, 15, "want text, a number, true or false"},
		{"an entry of data twice", "data: {a: {b: 1, b: 2}}\n" + onePolicy("key: request.ip"), 1, 18, `data.a has "b" twice`},
		{"data that is no mapping", "data: [1]\n" + onePolicy("key: request.ip"), 1, 7, "data: want a mapping"},
		{"a typing error in a data name", "data: {overrides: {acme: 1}}\n" + strings.Replace(onePolicy("key: request.ip"), "gcra, limit: 10", "gcra, limit: 'data.override[request.ip]'", 1), 8, 42, "did you mean data.overrides?"},
		{"a variable twice", "variables: {a: request.ip, a: request.ip}\n" + onePolicy("key: request.ip"), 1, 28, `variables has "a" twice`},
		{"a variable of a bad name", "variables: {a b: request.ip}\n" + onePolicy("key: request.ip"), 1, 13, "is not a name for expressions"},
		{"a typing error in a variable name", "variables: {tenant: request.ip}\n" + onePolicy("key: variables.tennant"), 6, 10, "did you mean variables.tenant?"},
		{"a tab", "version: 1\n\tname: a\n", 2, 1, "not YAML"},
		{"data of mixed types", "data: {a: [1, x]}\n" + onePolicy("key: request.ip"), 1, 15, "values of one type"},
		{"variable before its declaration", "variables: {a: variables.b, b: request.ip}\n" + onePolicy("key: variables.a"), 1, 16, "there is no variables.b"},
	}
	for _, tt := range tests {
		_, err := policies.Load("p.yaml", []byte(tt.text))
		var problems *policies.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: error %v, want problems", tt.name, err)
			continue
		}
		found := false
		for _, p := range problems.List {
			found = found || p.Line == tt.line && (tt.column == 0 || p.Column == tt.column) && strings.Contains(p.Message, tt.want)
		}
		if !found {
			t.Errorf("%s: want %d:%d: ... %s, got\n%v", tt.name, tt.line, tt.column, tt.want, err)
		}
	}
}

// A line is shown as YAML counts lines, and without what ends it.
func TestProblemsShowTheLineOfYAML(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r", "\u2028"} {
		_, err := policies.Load("p.yaml", []byte(strings.ReplaceAll(onePolicy("key: request.ipp"), "\n", end)))
		const want = "p.yaml:5:10: key: there is no request.ipp: did you mean request.ip?\n |     key: request.ipp\n |          ^"
		if err == nil || err.Error() != want {
			t.Errorf("%q: got\n%v\nwant\n%s", end, err, want)
		}
	}
}
