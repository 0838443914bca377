package policies_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/policies"
)

// seedExpressions are expressions of all sorts, good ones and bad.
var seedExpressions = []string{
	"true", "7", "request.ip", "request.nope", "request.path +", "'a", "1.5", "",
	"request.method in ['GET', 'PUT'] && request.route.startsWith('/v1/')",
	"request.path.matches('^/a(b|c)*$')", "request.path.matches('(')", "request.path.matches(request.host)",
	"request.headers[?'x-a'].orValue('none')", "request.headers['x-a']", "request.headers.?a.hasValue()",
	"has(request.headers.a)", "'x-a' in request.headers", "request.headers.exists(h, request.headers[h] == '')",
	"request.headers.all(h, h.startsWith('x')) ? 1 : 2", "request.claims.list.map(x, x * 2).size()",
	"request.claims.list.filter(x, x > 1).exists_one(x, x == 2)", "[1, 2].all(a, [3].exists(b, a == b))",
	"isIP(request.ip) && cidr('10.0.0.0/8').containsIP(request.ip)", "ip(request.ip).family()",
	"ip('::1').isLoopback()", "cidr(request.path)", "ipGroup(request.ip)", "ipGroup(request.ip, 24, 48)",
	"ipGroup(request.ip, -1, 999)", "ipGroup(request.ip, 9223372036854775807, -9223372036854775807)",
	"optional.of(request.user).orValue('x')", "optional.none().orValue(1)",
	"{'a': optional.of(1)}.?a.orValue(2)",
	"request.user.lowerAscii().replace('a', 'b').split('.')[0].substring(1)", "request.path.charAt(99)",
	"'%s %d %.2f'.format([request.path, 1, 2.5])", "'%s'.format([1, 2])",
	"request.path == 'a' ? (request.host == 'b' ? (request.size > 3 ? 1 : 2) : 3) : 4", "request.size / 0",
	"request.size % 0", "9223372036854775807 + request.size", "99999999999999999999999", "-9223372036854775808",
	"int(request.path)", "int('9223372036854775808')", "1e308 * 10.0 > 1.0", "string(request.time)",
	"request.time.getHours('Mars/Base')",
	"request.time + duration('2540400h') > timestamp('9999-12-31T23:59:59Z')",
	"duration('soon') > duration('1s')", "math.greatest(1, request.size)", "math.bitShiftLeft(1, 70)",
	"b'\\xff' == bytes(request.path)", "dyn(request.claims)['a']['b']", "request.query['q']",
	"request.path == 'é\u2028\u0085' || request.nope == 'ü'", "true &&\n  request.nope == 'x'\n",
	"\"it's\" == 'a\"b' || request.nope == 1", "// remark\ntrue", "é\u2028",
}

var scalarStyles = []yaml.Style{yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle, yaml.FoldedStyle, 0}

// fuzzedFields are the places of an expression, but for a side's limit.
var fuzzedFields = []string{
	"when: PLACE\n    key: request.ip",
	"key: PLACE",
	"key: [request.ip, PLACE]",
	"key: request.ip\n    cost: PLACE",
}

// FuzzExpression puts an expression wherever one may stand, in every style of YAML,
// and charges a request of what a stranger may send.
func FuzzExpression(f *testing.F) {
	for i, expression := range seedExpressions {
		f.Add(expression, byte(i), "/a/b", "10.1.2.3", "2001:db8::1")
		f.Add(expression, byte(i+2), "\xff\x00%s"+strings.Repeat("a", 300), "", "fe80::1%eth0")
	}

	files := []string{strings.Replace(onePolicy("key: request.ip"), "limit: 10", "limit: PLACE", 2)}
	for _, fields := range fuzzedFields {
		files = append(files, onePolicy(fields))
	}

	f.Fuzz(func(t *testing.T, expression string, style byte, path, header, ip string) {
		if !utf8.ValidString(expression) {
			return // YAML has no such text
		}

		for _, file := range files {
			text := inserted(t, file, expression, scalarStyles[int(style)%len(scalarStyles)])
			set, err := policies.Load("p.yaml", []byte(text))
			if err != nil {
				checkPlaces(t, text, err)
				continue
			}
			checkHostile(t, set, path, header, ip)
		}
	})
}

// inserted puts an expression in a style where the file says PLACE.
func inserted(t *testing.T, file, expression string, style yaml.Style) string {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(file), &root); err != nil {
		t.Fatal(err)
	}

	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Value == "PLACE" {
			n.Value, n.Style, n.Tag = expression, style, "!!str"
		}
		for _, child := range n.Content {
			walk(child)
		}
	}
	walk(&root)

	text, err := yaml.Marshal(&root)
	if err != nil {
		t.Skip(err) // what YAML cannot write
	}
	return string(text)
}

// lineBreak is what ends a line for YAML.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// checkPlaces wants every problem to lie within the file, or just after a line's end.
func checkPlaces(t *testing.T, text string, err error) {
	t.Helper()
	var problems *policies.Problems
	if !errors.As(err, &problems) || len(problems.List) == 0 {
		t.Fatalf("%q: error %v, want problems", text, err)
	}

	lines := lineBreak.Split(text, -1)
	for _, p := range problems.List {
		inside := p.Line >= 1 && p.Line <= len(lines) && p.Column >= 1
		if !inside || p.Column > 1+utf8.RuneCountInString(lines[p.Line-1]) {
			t.Errorf("%d:%d is not in the file: %s\n%s", p.Line, p.Column, p.Message, text)
		}
	}
}

// checkHostile charges a request whose fields are what a fuzzer has found.
func checkHostile(t *testing.T, set *policies.Set, path, header, ip string) {
	t.Helper()
	r := &policies.Request{
		Method: header, Path: path, Route: path, Host: header, RawQuery: path, IP: ip, User: header, Size: -1,
		Headers: http.Header{"X-A": {header, path}, "A": {ip}, "Empty": nil},
		Claims: map[string]any{
			"list": []any{1, "2", nil, header}, "a": map[string]any{"b": path}, "nil": nil, header: ip,
		},
	}

	for _, p := range set.Policies {
		c, matches, err := p.Check(t.Context(), r)
		if err == nil && matches && (len(c.Key) > 256 || c.Cost < 0) {
			t.Errorf("a key of %d bytes at a cost of %d", len(c.Key), c.Cost)
		}
		if err != nil && matches {
			t.Errorf("charged in spite of %v", err)
		}
	}
	set.Explain(r)
}
