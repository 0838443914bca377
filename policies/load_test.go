package policies_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// checkout is the example of the documentation, whole.
func checkout(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func load(t testing.TB, text string) *policies.Set {
	t.Helper()
	set, err := policies.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestChargesOfRequests(t *testing.T) {
	p := load(t, checkout(t)).Policies[0]
	tests := []struct {
		name                  string
		method, route, path   string
		headers               http.Header
		wantMatch             bool
		wantKey               string
		wantCost, wantRequest int64
	}{
		{"a read does not match", "GET", "/v1/orders", "/v1/orders", nil, false, "", 0, 0},
		{"another route does not match", "POST", "/v2/orders", "/v2/orders", nil, false, "", 0, 0},
		{"no header: the default", "POST", "/v1/orders", "/v1/orders", nil, true, "anonymous|/v1/orders", 1, 100},
		{"a bulk request costs ten", "PUT", "/v1/bulk/{id}", "/v1/bulk/7", http.Header{"X-Tenant": {"acme"}}, true, "acme|/v1/bulk/{id}", 10, 9000},
		{"separators are escaped", "PUT", "/v1/a", "/v1/a", http.Header{"X-Tenant": {`a|b\`}}, true, `a\|b\\|/v1/a`, 1, 100},
		{"several values are joined", "PUT", "/v1/a", "/v1/a", http.Header{"X-Tenant": {"a", "b"}}, true, "a, b|/v1/a", 1, 100},
	}
	var r policies.Request
	for _, tt := range tests {
		r.Reset()
		r.Method, r.Route, r.Path, r.Headers = tt.method, tt.route, tt.path, tt.headers
		c, matches, err := p.Charge(t.Context(), &r)
		if err != nil || matches != tt.wantMatch {
			t.Errorf("%s: matches %v, error %v", tt.name, matches, err)
			continue
		}
		if !matches {
			continue
		}
		candidate := c.Sides[algorithms.Candidate]
		if c.Key != tt.wantKey || c.Cost != tt.wantCost || candidate.Limit.Requests != tt.wantRequest {
			t.Errorf("%s: key %q cost %d limit %d, want %q %d %d", tt.name, c.Key, c.Cost, candidate.Limit.Requests, tt.wantKey, tt.wantCost, tt.wantRequest)
		}
		if candidate.Algorithm.Name() != "token_bucket" || candidate.Limit.Burst != 20 || candidate.Limit.Window != time.Minute {
			t.Errorf("%s: candidate %+v", tt.name, candidate)
		}
	}
}

func TestEveryRequestFieldIsThere(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	r := policies.Request{
		Method: "GET", Path: "/p", Route: "/r", Host: "h", RawQuery: "q=1&q=2", Headers: http.Header{"X-A": {"v"}},
		IP: "192.0.2.1", User: "u", Claims: map[string]any{"plan": "gold"}, Size: 7, Time: at,
	}
	for expression, want := range map[string]string{
		"request.method": "GET", "request.path": "/p", "request.route": "/r", "request.host": "h",
		"request.query['q']": "1", "request.headers['x-a']": "v", "request.ip": "192.0.2.1", "request.user": "u",
		"request.claims['plan']": "gold", "request.size": "7", "request.time.getHours()": "9",
		"request.headers.size()": "1", "request.headers.exists(h, h == 'x-a')": "true", "'x-a' in request.headers": "true", "('X' + '-A') in request.headers": "false",
	} {
		c, _, err := load(t, onePolicy("key: "+`"`+expression+`"`)).Policies[0].Charge(t.Context(), &r)
		if err != nil || c.Key != want {
			t.Errorf("%s: key %q, error %v, want %q", expression, c.Key, err, want)
		}
		r.Reset()
		r = policies.Request{
			Method: "GET", Path: "/p", Route: "/r", Host: "h", RawQuery: "q=1&q=2", Headers: http.Header{"X-A": {"v"}},
			IP: "192.0.2.1", User: "u", Claims: map[string]any{"plan": "gold"}, Size: 7, Time: at,
		}
	}
}

func TestExpressionsThatFailChargeNothing(t *testing.T) {
	p := load(t, onePolicy("key: request.headers['x-tenant']")).Policies[0]
	if c, matches, err := p.Charge(t.Context(), &policies.Request{}); err == nil || matches || c.Key != "" {
		t.Errorf("a header that is not there: %+v, %v, %v, want an error", c, matches, err)
	}
}

func TestWhatCannotBeChargedIsAnError(t *testing.T) {
	for _, fields := range []string{"key: request.ip\n    cost: request.size", "key: request.claims['roles']"} {
		p := load(t, onePolicy(fields)).Policies[0]
		if _, matches, err := p.Charge(t.Context(), &policies.Request{Size: -1, Claims: map[string]any{"roles": []string{"a"}}}); err == nil || matches {
			t.Errorf("%s: matches %v, error %v", fields, matches, err)
		}
	}
}

// A variable may not double the one before for ever.
func TestVariablesAreBounded(t *testing.T) {
	text := "variables:\n  v0: request.path\n"
	for i := range 24 {
		text += fmt.Sprintf("  v%d: variables.v%d + variables.v%d\n", i+1, i, i)
	}
	p := load(t, text+onePolicy("key: variables.v24")).Policies[0]
	if c, _, err := p.Charge(t.Context(), &policies.Request{Path: "/long"}); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a key of %d bytes, error %v", len(c.Key), err)
	}
}

func TestLongKeysAreHashed(t *testing.T) {
	p := load(t, onePolicy("key: request.path")).Policies[0]
	c, _, err := p.Charge(t.Context(), &policies.Request{Path: strings.Repeat("x", 257)})
	if err != nil || len(c.Key) != 65 || c.Key[0] != '#' {
		t.Errorf("key %q, error %v, want # and 64 digits", c.Key, err)
	}
}

func TestEpochIsWhatIsCompared(t *testing.T) {
	base := load(t, checkout(t)).Policies[0].Epoch()
	for change, sameEpoch := range map[string]bool{
		"limit: 100, window: 1m }>limit: 101, window: 1m }": false,
		"burst: 20>burst: 21":                               false,
		"request.route]>request.path]":                      false,
		"orValue(100)>orValue(99)":                          false,
		"acme: 9000>acme: 9001":                             true,
		"soak: 48h>soak: 24h":                               true,
		`orValue("anonymous")>orValue("nobody")`:            false,
		"? 10 : 1>? 20 : 1":                                 true,
	} {
		from, to, _ := strings.Cut(change, ">")
		if !strings.Contains(checkout(t), from) {
			t.Fatalf("the example has no %q", from)
		}
		if got := load(t, strings.Replace(checkout(t), from, to, 1)).Policies[0].Epoch(); (got == base) != sameEpoch {
			t.Errorf("%s: epoch %s, before %s", change, got, base)
		}
	}
}

func TestPolicyOverridesPromotionOfTheFile(t *testing.T) {
	p := load(t, onePolicy("key: request.ip\n    promotion: {soak: 72h, change_window: {days: [sat], from: '10:00', to: '24:00', zone: Europe/Berlin}}")+"promotion: {soak: 24h, block: 2h, mode: automatic, canary: [5%, 100%]}\n").Policies[0].Promotion
	if p.Soak != 72*time.Hour || p.Block != 2*time.Hour || p.Mode != "automatic" || len(p.Canary) != 2 || p.Canary[0] != 5 {
		t.Errorf("promotion %+v", p)
	}
	if p.ChangeZone.String() != "Europe/Berlin" || p.ChangeTo != 24*time.Hour || p.ChangeDays[0] != time.Saturday {
		t.Errorf("change window %+v", p)
	}
}

// onePolicy is a file with one policy of these fields besides name and sides.
func onePolicy(fields string) string {
	return "version: 1\nname: test\npolicies:\n  - name: p\n    " + fields + "\n" +
		"    authoritative: {algorithm: fixed_window, limit: 10, window: 1m}\n    candidate: {algorithm: gcra, limit: 10, window: 1m}\n"
}

func side(fields string) string {
	return "version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {" + fields + "}\n    key: request.ip\n"
}

func TestProblemsShowTheLine(t *testing.T) {
	_, err := policies.Load("p.yaml", []byte(onePolicy("key: request.ipp")))
	const want = "p.yaml:5:10: key: there is no request.ipp: did you mean request.ip?\n |     key: request.ipp\n |          ^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(checkout(f))
	f.Add(onePolicy("key: [request.ip, '1']\n    cost: 2 + 2"))
	f.Fuzz(func(t *testing.T, text string) {
		set, err := policies.Load("p.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, p := range set.Policies {
			p.Charge(t.Context(), &policies.Request{Path: "/x"})
		}
	})
}

func BenchmarkCharge(b *testing.B) {
	p := load(b, checkout(b)).Policies[0]
	h := http.Header{"X-Tenant": {"acme"}}
	var r policies.Request
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		r.Method, r.Route, r.Path, r.Headers = "POST", "/v1/orders", "/v1/orders", h
		if _, ok, err := p.Charge(b.Context(), &r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func TestClientsOfOneNetworkAreOne(t *testing.T) {
	p := load(t, onePolicy("key: ipGroup(request.ip)")).Policies[0]
	for ip, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::9": "2001:db8:1:2::/64",
		"::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::/64", "no address": "no address", "": "",
	} {
		if c, _, err := p.Charge(t.Context(), &policies.Request{IP: ip}); err != nil || c.Key != want {
			t.Errorf("%s: key %q, %v, want %q", ip, c.Key, err, want)
		}
	}
	wide := load(t, onePolicy("key: ipGroup(request.ip, 24, 48)")).Policies[0]
	if c, _, err := wide.Charge(t.Context(), &policies.Request{IP: "192.0.2.77"}); err != nil || c.Key != "192.0.2.0/24" {
		t.Errorf("key %q, %v", c.Key, err)
	}
}

func TestExtensions(t *testing.T) {
	r := &policies.Request{IP: "10.1.2.3", User: "Ab", Path: "/a/b", Claims: map[string]any{"roles": []string{"x"}}}
	for expression, want := range map[string]string{
		"cidr('10.0.0.0/8').containsIP(request.ip)": "true", "request.user.lowerAscii()": "ab", "request.path.split('/')[1]": "a",
		"math.greatest(1, 7)": "7", "string(ip(request.ip).family())": "4", "request.claims.roles.exists(r, r == 'x')": "true",
	} {
		c, _, err := load(t, onePolicy(`key: "`+expression+`"`)).Policies[0].Charge(t.Context(), r)
		if err != nil || c.Key != want {
			t.Errorf("%s: key %q, %v, want %q", expression, c.Key, err, want)
		}
	}
}

func TestDearExpressionsAreRefused(t *testing.T) {
	for _, expression := range []string{
		`request.headers.all(h, request.headers[h].contains(request.path))`,
	} {
		_, err := policies.Load("p.yaml", []byte(onePolicy("when: "+`"`+expression+`"`+"\n    key: request.ip")))
		if err == nil || !strings.Contains(err.Error(), "at most 10000 are allowed") {
			t.Errorf("%s: %v", expression, err)
		}
	}
	// What no estimate bounds is bounded when it runs.
	p := load(t, onePolicy(`when: "request.claims.list.all(a, a >= 0)"`+"\n    key: request.ip")).Policies[0]
	long := make([]int, 10_000)
	for i := range long {
		long[i] = i
	}
	if _, _, err := p.Charge(t.Context(), &policies.Request{Claims: map[string]any{"list": long}}); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("a loop over a claim: %v", err)
	}
}

// A loop over claims ends with the request's deadline, if not by its cost before.
func TestLoopsHeedTheDeadline(t *testing.T) {
	p := load(t, onePolicy("key: request.user\n    cost: 'request.claims.list.all(x, x >= 0) ? 1 : 2'")).Policies[0]
	r := &policies.Request{Claims: map[string]any{"list": make([]int64, 500)}}
	if c, _, err := p.Charge(t.Context(), r); err != nil || c.Cost != 1 {
		t.Fatalf("%+v, %v", c, err)
	}

	later, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	if c, _, err := p.Charge(later, r); err != nil || c.Cost != 1 {
		t.Errorf("before the deadline: %+v, %v", c, err)
	}

	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, _, err := p.Charge(over, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}

	left, cancel := context.WithCancel(t.Context())
	cancel()
	if c, _, err := p.Charge(left, r); err != nil || c.Cost != 1 {
		t.Errorf("after the client has disconnected: %+v, %v", c, err)
	}
}

// Working memory does not go over from one file to another, nor from a request to its copy.
func TestRequestsKeepTheirMemoryApart(t *testing.T) {
	file := "variables: {who: 'request.user + \"%s\"'}\n" + onePolicy("key: variables.who")
	one := load(t, strings.Replace(file, "%s", "-1", 1)).Policies[0]
	two := load(t, strings.Replace(file, "%s", "-2", 1)).Policies[0]

	r := policies.Request{User: "ann"}
	key := func(p *policies.Policy, r *policies.Request) string {
		c, _, err := p.Charge(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return c.Key
	}
	if got := key(one, &r); got != "ann-1" {
		t.Errorf("key %q, want ann-1", got)
	}
	if got := key(two, &r); got != "ann-2" {
		t.Errorf("the same request by another file: key %q, want ann-2", got)
	}

	other := r
	other.User = "bob"
	if got := key(two, &other); got != "bob-2" {
		t.Errorf("a copy with another user: key %q, want bob-2", got)
	}
	if got := key(two, &r); got != "ann-2" {
		t.Errorf("the request after its copy: key %q, want ann-2", got)
	}
}

func TestParseKey(t *testing.T) {
	k, err := policies.ParseKey("--key", "ipGroup(request.ip) + request.method")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Of(&policies.Request{IP: "2001:db8::1", Method: "GET"}); err != nil || got != "2001:db8::/64GET" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := policies.ParseKey("--key", "request.ipp"); err == nil || !strings.Contains(err.Error(), "--key:1:1") || !strings.Contains(err.Error(), "did you mean request.ip?") {
		t.Errorf("%v", err)
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		want       string // "" if nothing is to be warned of
	}{
		{"nothing", onePolicy("key: request.user"), 0, ""},
		{"a raw path", onePolicy("key: [request.user, request.path]"), 5, "key: request.path has a new value in nearly every request"},
		{"a request id through a variable", "variables: {id: 'request.headers[?\"x-request-id\"].orValue(\"\")'}\n" + onePolicy("key: variables.id"), 6, `request.headers["x-request-id"] has a new value in nearly every request`},
		{"a header that may not be there", onePolicy("key: request.headers['x-tenant']"), 5, `give it a default, such as request.headers[?"x-tenant"].orValue("none")`},
		{"a header that the condition asks for", onePolicy("key: request.headers['x-tenant']\n    when: \"request.headers[?'x-tenant'].hasValue()\""), 0, ""},
		{"a claim by its name that may not be there", onePolicy("key: request.claims.sub"), 5, `request.claims[?"sub"].orValue("none")`},
		{"a header that may not be there, and denial", onePolicy("key: request.headers['x-tenant']\n    on_error: deny"), 0, ""},
		{"a number that a client writes", onePolicy("key: request.user\n    cost: 'int(request.query[?\"n\"].orValue(\"1\"))'"), 6, "a client that sends a text that int rejects makes this fail"},
		{"the same through a variable", "variables: {n: 'int(request.query[?\"n\"].orValue(\"1\"))'}\n" + onePolicy("key: request.user\n    cost: variables.n"), 7, "on_error: deny"},
		{"the same where it is said what rules", onePolicy("key: request.user\n    on_error: allow\n    cost: 'int(request.query[?\"n\"].orValue(\"1\"))'"), 0, ""},
		{"a part of a path", onePolicy("key: request.user\n    when: 'request.host.split(\".\")[1] == \"a\"'"), 6, "too few parts"},
		{"a condition that negates what may not be there", onePolicy("key: request.user\n    when: request.headers['x-plan'] != 'internal'"), 6, "for a request without request.headers[\"x-plan\"] the condition fails"},
		{"one that asks first", onePolicy("key: request.user\n    when: '!(\"x-plan\" in request.headers) || request.headers[\"x-plan\"] != \"a\"'"), 0, ""},
		{"the header that servers take out", onePolicy("key: 'request.headers[?\"host\"].orValue(\"\")'"), 4, "use request.host"},
		{"everything expected", onePolicy("key: request.user\n    promotion: {expected: [{when: 'true', direction: newly_denied, until: 2999-01-01, owner: a}]}"), 6, "declares every difference"},
		{"a size that may be unknown", onePolicy("key: request.user\n    cost: request.size"), 6, "use math.greatest(request.size, 1)"},
		{"a size that is at least 1", onePolicy("key: request.user\n    cost: 'math.greatest(request.size, 1)'"), 0, ""},
		{"the time", onePolicy("key: string(request.time)"), 5, "request.time has a new value in nearly every request"},
		{"an address where a user is known", onePolicy("key: request.ip\n    when: request.path != '/' + request.user"), 0, ""},
		{"an address beside claims in a cost", onePolicy("key: request.ip\n    cost: size(request.claims)"), 5, "the address alone"},
		{"a condition that contradicts itself", onePolicy("key: request.user\n    when: request.method == 'GET' && request.method in ['PUT', 'POST']"), 6, "no request can match"},
		{"prefixes that contradict", onePolicy("key: request.user\n    when: request.route.startsWith('/a') && request.route == '/b'"), 6, "no request can match"},
		{"prefixes that agree", onePolicy("key: request.user\n    when: request.route.startsWith('/a') && '/ab' == request.route"), 0, ""},
		{"false", onePolicy("key: request.user\n    when: 'false'"), 6, "no request can match"},
		{"the same twice", strings.Replace(onePolicy("key: request.user"), "gcra, limit: 10", "fixed_window, id: b, limit: 10", 1), 7, "the candidate is the same limiter as the authoritative"},
		{"long aligned windows", strings.Replace(onePolicy("key: request.user"), "candidate: {algorithm: gcra, limit: 10, window: 1m", "candidate: {algorithm: fixed_window, id: b, limit: 10, window: 1h", 1), 7, "windows of 1h are aligned"},
		{"a limit by what is no part of the key", strings.Replace(onePolicy("key: request.user"), "gcra, limit: 10", "gcra, limit: 'size(request.host)'", 1), 7, "the limit depends on request.host"},
		{"a cost that never fits", onePolicy("key: request.user\n    cost: 11"), 6, "cost: 11 is more than the authoritative ever allows at once, 10"},
		{"an expected difference whose time is over", onePolicy("key: request.user\n    promotion: {expected: [{when: request.user == 'b', direction: newly_denied, until: 2020-01-01, owner: a}]}"), 6, "the declaration ended on 2020-01-01, and the difference counts against the candidate again; ask its owner, a,"},
		{"a policy in the shadow of another", onePolicy("key: request.user") + "  - name: q\n    key: request.user\n    when: request.method == 'GET'\n    authoritative: {algorithm: fixed_window, limit: 20, window: 1m}\n", 8, "q: whatever it denies p denies, too"},
		{"a policy beside another", onePolicy("key: request.user") + "  - name: q\n    key: request.user\n    authoritative: {algorithm: fixed_window, limit: 5, window: 1m}\n", 0, ""},
		{"a limit by the key", strings.Replace(onePolicy("key: request.user"), "gcra, limit: 10", "gcra, limit: 'size(request.user)'", 1), 0, ""},
	}
	for _, tt := range tests {
		warnings := load(t, tt.text).Warnings
		switch {
		case tt.want == "" && len(warnings) > 0:
			t.Errorf("%s: warned of %v", tt.name, warnings)
		case tt.want != "" && (len(warnings) != 1 || warnings[0].Line != tt.line || !strings.Contains(warnings[0].Message, tt.want)):
			t.Errorf("%s: warnings %v, want line %d: %s", tt.name, warnings, tt.line, tt.want)
		}
	}
}

// What filters say of a condition is what CEL says of it.
func TestFiltersAgreeWithCEL(t *testing.T) {
	conditions := []string{
		"request.method == 'GET'", "'GET' == request.method", "request.method in ['GET', 'PUT']", "request.route.startsWith('/v1')",
		"request.method == 'GET' && request.route.startsWith('/v1/') && request.host != 'x'", "request.method == 'GET' || request.host == 'a'",
		"!(request.method == 'GET')", "request.method == 'GET' && request.headers['none'] == 'x'", "request.path in []",
		"(request.method == 'GET') == (request.host == 'a')",
	}
	for _, condition := range conditions {
		// The same condition where no filter can be found in it.
		hidden := load(t, onePolicy("key: request.user\n    when: \"("+condition+") ? true : false\"")).Policies[0]
		plain := load(t, onePolicy("key: request.user\n    when: \""+condition+"\"")).Policies[0]
		for _, method := range []string{"GET", "PUT", ""} {
			for _, route := range []string{"/v1/a", "/v1", "/v2"} {
				for _, host := range []string{"a", "x"} {
					r := &policies.Request{Method: method, Route: route, Path: route, Host: host}
					_, want, wantErr := hidden.Charge(t.Context(), r)
					_, got, gotErr := plain.Charge(t.Context(), r)
					if got != want || gotErr != nil && wantErr == nil {
						t.Errorf("%s of %s %s %s: %v %v, want %v %v", condition, method, route, host, got, gotErr, want, wantErr)
					}
				}
			}
		}
	}
}

// Distinct tuples make distinct keys, whatever is in them.
func TestKeysOfTuplesNeverCollide(t *testing.T) {
	p := load(t, onePolicy("key: [request.user, request.host, request.method]")).Policies[0]
	part := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune{'|', '\\', '#', 0, 'a', 'é'}), 0, 5, -1), rapid.Just(""), rapid.Just(strings.Repeat("x", 300)))
	rapid.Check(t, func(t *rapid.T) {
		tuple := func(name string) [3]string {
			return [3]string{part.Draw(t, name), part.Draw(t, name), part.Draw(t, name)}
		}
		key := func(tuple [3]string) string {
			c, _, err := p.Charge(t.Context(), &policies.Request{User: tuple[0], Host: tuple[1], Method: tuple[2]})
			if err != nil || len(c.Key) > 256 {
				t.Fatalf("%q: key of %d bytes, %v", tuple, len(c.Key), err)
			}
			return c.Key
		}
		a, b := tuple("a"), tuple("b")
		if (a == b) != (key(a) == key(b)) {
			t.Fatalf("%q and %q have the keys %q and %q", a, b, key(a), key(b))
		}
	})
}
