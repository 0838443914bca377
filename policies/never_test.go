package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

var hostWarnings = []warningTest{
	{"a host", onePolicy("key: request.user\n    when: request.host == 'api.example.com'"), 0, ""},
	{
		"parts of a host",
		onePolicy("key: request.user\n    when: request.host.startsWith('api.') && request.host.endsWith('.com')"),
		0, "",
	},
	{
		"a host in upper case", onePolicy("key: request.user\n    when: request.host == 'API.example.com'"),
		6, `request.host is never "API.example.com", for it is in lower case, without port, brackets and final dot: write "api.example.com"`,
	},
	{"a host with a port", onePolicy("key: request.user\n    when: '\"a.com:443\" != request.host'"), 6, `write "a.com"`},
	{"a host in a list", onePolicy("key: request.user\n    when: request.host in ['a.com', 'b.com.']"), 6, `write "b.com"`},
	{"a host in brackets", onePolicy("key: request.user\n    when: request.host == '[::1]'"), 6, `write "::1"`},
	{"a part of a host in upper case", onePolicy("key: request.user\n    when: request.host.startsWith('Api.')"), 6, `write "api."`},
	{
		"a host in a list of the file",
		"data: {hosts: [a.com, 'b.com:80']}\n" + onePolicy("key: request.user\n    when: request.host in data.hosts"),
		7, `write "b.com"`,
	},
	{
		"a host in a table of the file",
		"data: {costs: {A.com: 3}}\n" + onePolicy("key: request.user\n    cost: data.costs[?request.host].orValue(1)"), 7, `write "a.com"`,
	},
	{
		"a table of other names",
		"data: {costs: {A: 3}}\n" + onePolicy("key: request.user\n    cost: data.costs[?request.user].orValue(1)"),
		0, "",
	},
	{
		"a host of a variable", "variables: {ours: 'request.host == \"A.com\"'}\n" + onePolicy("key: request.user\n    when: variables.ours"),
		1, `write "a.com"`,
	},
}

// A warning takes nothing from a file, wherever the expression stands that it is about: a side that was left out for it would
// crash the service that loads the file, or end a comparison in silence.
func TestWarningsTakeNothingAway(t *testing.T) {
	const doubtful, number = `'request.host == "A.com"'`, `'request.host == "A.com" ? 5 : 10'`
	for field, expression := range map[string]string{
		"when: WHEN": doubtful, "key: request.ip": "'request.host == \"A.com\" ? \"a\" : request.ip'", "cost: 1": number,
		"limit: 1": number, "limit: 2": number, "burst: 3": number,
	} {
		text := strings.Replace(`version: 1
name: test
policies:
  - name: p
    when: WHEN
    key: request.ip
    cost: 1
    authoritative: { algorithm: gcra, limit: 1, window: 1m }
    candidate: { algorithm: token_bucket, limit: 2, burst: 3, window: 1m }
`, field, strings.SplitAfter(field, ":")[0]+" "+expression, 1)
		set, err := policies.Load("p.yaml", []byte(strings.Replace(text, "WHEN", "'true'", 1)))
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}

		p := set.Policies[0]
		if p.Sides[algorithms.Authoritative] == nil || p.Sides[algorithms.Candidate] == nil {
			t.Errorf("%s: a side is missing in\n%s", field, text)
		}
		if !slices.ContainsFunc(set.Warnings, func(w policies.Problem) bool { return strings.Contains(w.Message, "is never \"A.com\"") }) {
			t.Errorf("%s: no warning of the host in %v", field, set.Warnings)
		}
	}
}

// Methods and paths have one form, too, and a text in another form is never theirs.
var formWarnings = []warningTest{
	{"a method", onePolicy("key: request.user\n    when: request.method in ['GET', 'POST']"), 0, ""},
	{
		"a method in lower case", onePolicy("key: request.user\n    when: request.method == 'post'"),
		6, `request.method is never "post", for clients send it in upper case: write "POST"`,
	},
	{
		"a method in a list", onePolicy("key: request.user\n    when: '!(request.method in [\"GET\", \"head\"])'"),
		6, `write "HEAD"`,
	},
	{"a path", onePolicy("key: request.user\n    when: request.path == '/a' || request.path.startsWith('/b')"), 0, ""},
	{"a part of a path", onePolicy("key: request.user\n    when: request.path.endsWith('.js') || request.path.contains('api')"), 0, ""},
	{"the paths of Envoy and of OPTIONS", onePolicy("key: request.user\n    when: request.path in ['', '*']"), 0, ""},
	{
		"a path without its slash", onePolicy("key: request.user\n    when: request.path != 'orders'"),
		6, `for it begins with / and ends before the ?, behind which request.query is: write "/orders"`,
	},
	{"a path with a query", onePolicy("key: request.user\n    when: request.path == '/a?b=1'"), 6, `write "/a"`},
	{"the begin of a path", onePolicy("key: request.user\n    when: request.path.startsWith('orders')"), 6, `write "/orders"`},
	{"a route, which services name as they like", onePolicy("key: request.user\n    when: request.route == 'orders'"), 0, ""},
}
