package adaptertest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// tests are the suite. Each starts services of its own.
var tests = []struct {
	name string
	run  func(*testing.T, Framework)
}{
	{"Routes", testRoutes},
	{"Styles", testStyles},
	{"Announce", testAnnounce},
	{"Debug", testDebug},
	{"InContext", testInContext},
	{"RetryJitter", testRetryJitter},
	{"ClientIP", testClientIP},
	{"Identify", testIdentify},
	{"Pair", testPair},
	{"Stream", testStream},
	{"ClientThatLeaves", testClientThatLeaves},
	{"Turns", testTurns},
	{"Panic", testPanic},
	{"Served", testServed},
	{"Unserved", testUnserved},
	{"Settled", testSettled},
	{"HostileHeaders", testHostileHeaders},
	{"HostileSpellings", testHostileSpellings},
	{"Crowd", testCrowd},
	{"Failures", testFailures},
}

// Run runs the suite on a framework.
func Run(t *testing.T, f Framework) {
	for _, test := range tests {
		if f.Without[test.name] != "" {
			continue
		}
		t.Run(test.name, func(t *testing.T) { test.run(t, f) })
	}
}

// send sends a request that must be answered.
func send(t *testing.T, c Client, route string, h http.Header) Answer {
	t.Helper()
	a, err := c.Send(t.Context(), Query{route, h})
	if err != nil {
		t.Fatalf("%s: %v", route, err)
	}
	return a
}

// fields are the response fields of limits in an answer, sorted.
func fields(a Answer) string {
	var list []string
	for name, values := range a.Header {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "ratelimit") || lower == "retry-after" {
			list = append(list, lower+": "+strings.Join(values, " | "))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// A policy is found by the template of the route, and the enforced side answers.
func testRoutes(t *testing.T, f Framework) { testLimits(t, f.Start(t, newService(t, f, file))) }

// testLimits sends requests of two tenants, of whom each may have two, to all routes.
func testLimits(t *testing.T, c Client) {
	const policy = `ratelimit-policy: "per-tenant";q=2;w=3600`

	for i, tt := range []struct {
		route, tenant string
		status        int
		fields        string
	}{
		{"item", "a", 200, policy + `, ratelimit: "per-tenant";r=1;t=3600`},
		{"item", "a", 200, policy + `, ratelimit: "per-tenant";r=0;t=3600`},
		{"item", "a", 429, policy + `, ratelimit: "per-tenant";r=0;t=3600, retry-after: 3600`},
		{"item", "b", 200, policy + `, ratelimit: "per-tenant";r=1;t=3600`},
		{"free", "a", 200, ""},
		{"none", "a", 404, ""},
	} {
		a := send(t, c, tt.route, tenant(tt.tenant))
		if a.Status != tt.status || fields(a) != tt.fields {
			t.Errorf("request %d to %s: %d %s, want %d %s", i, tt.route, a.Status, fields(a), tt.status, tt.fields)
		}
		if handled := strings.HasPrefix(a.Body, Served); tt.route == "item" && handled != (tt.status == 200) {
			t.Errorf("request %d: %d, and the body %q", i, a.Status, a.Body)
		}
	}
}

// Every style of response fields has its names.
func testStyles(t *testing.T, f Framework) {
	for style, want := range map[limits.Style]string{
		limits.Draft06:  "ratelimit-limit: 2, ratelimit-policy: 2;w=3600, ratelimit-remaining: 1, ratelimit-reset: 3600",
		limits.Legacy:   "x-ratelimit-limit: 2, x-ratelimit-remaining: 1, x-ratelimit-reset: 3600",
		limits.NoFields: "",
	} {
		s := newService(t, f, file)
		s.Settings.Fields = style
		c := f.Start(t, s)
		if a := send(t, c, "item", tenant("a")); fields(a) != want {
			t.Errorf("style %d: %s, want %s", style, fields(a), want)
		}

		send(t, c, "item", tenant("a"))
		if a := send(t, c, "item", tenant("a")); a.Status != 429 || a.Header.Get("Retry-After") != "3600" {
			t.Errorf("style %d: %d %s, want 429 with Retry-After in every style", style, a.Status, fields(a))
		}
	}
}

// The candidate's limit is announced if the service asks for that.
func testAnnounce(t *testing.T, f Framework) {
	s := newService(t, f, file)
	s.Settings.Announce = true
	want := `ratelimit-policy: "per-tenant";q=2;w=3600, "per-tenant:candidate";q=1;w=7200, ratelimit: "per-tenant";r=1;t=3600`
	if a := send(t, f.Start(t, s), "item", tenant("a")); fields(a) != want {
		t.Errorf("%s, want %s", fields(a), want)
	}
}

// Both sides are shown if the service asks for that, and otherwise not.
func testDebug(t *testing.T, f Framework) {
	for _, debugged := range []bool{false, true} {
		s := newService(t, f, file)
		s.Debugged = debugged
		a := send(t, f.Start(t, s), "item", tenant("a"))
		want := ""
		if debugged {
			want = `policy="per-tenant", enforced=authoritative, allowed=?1, candidate=?1;remaining=0`
		}
		if got := a.Header.Get(limits.DebugField); got != want {
			t.Errorf("debugged %t: %q, want %q", debugged, got, want)
		}
	}
}

// A handler learns the other side's answer if the service asks for that, and otherwise nothing.
func testInContext(t *testing.T, f Framework) {
	for _, asked := range []bool{false, true} {
		s := newService(t, f, file)
		s.InContext = asked
		close(s.release)
		c := f.Start(t, s)
		for i, want := range []string{" by per-tenant, candidate allows true", " by per-tenant, candidate allows false"} {
			if !asked {
				want = ""
			}
			if a := send(t, c, "item", tenant("a")); a.Body != Served+"1"+want {
				t.Errorf("asked %t: request %d: %q, want %q", asked, i, a.Body, want)
			}
		}

		next, err := c.Open(t.Context(), Query{"stream", tenant("b")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := next()
		if told := strings.HasPrefix(got, "first by per-tenant, candidate allows true"); err != nil || told != asked {
			t.Errorf("asked %t: a stream: %q, %v", asked, got, err)
		}
		for err == nil {
			_, err = next()
		}
	}
}

// Retry-After is spread, and never earlier than the limit allows.
func testRetryJitter(t *testing.T, f Framework) {
	s := newService(t, f, file)
	s.Settings.RetryJitter = 0.25 // 15 minutes of an hour
	c := f.Start(t, s)

	// Two requests are allowed, and 18 are told when to come again.
	seen := map[string]bool{}
	for range 20 {
		if a := send(t, c, "item", tenant("a")); a.Status == 429 {
			after := a.Header.Get("Retry-After")
			seen[after] = true
			if len(after) != 4 || after < "3600" || after > "4500" {
				t.Errorf("Retry-After %s, want 3600 and a part of 15 minutes", after)
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("18 clients are told %v", seen)
	}
}

// A client's own word about its address counts only if a trusted proxy passes it on.
func testClientIP(t *testing.T, f Framework) {
	text := strings.ReplaceAll(file, `request.headers[?"x-tenant"].orValue(request.ip)`, "request.ip")
	for _, trusted := range []bool{false, true} {
		s := newService(t, f, text)
		if trusted {
			s.Settings.ClientIP = httplimit.ForwardedFor(netip.MustParsePrefix("127.0.0.0/8"))
		}

		c := f.Start(t, s)
		var got []int
		for _, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"} {
			got = append(got, send(t, c, "item", tenant("x", "X-Forwarded-For", client)).Status)
		}

		want := "[200 200 429 429]"
		if trusted {
			want = "[200 200 429 200]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("trusted %t: %v, want %s", trusted, got, want)
		}
	}
}

// identified limits users by their plans.
const identified = `
version: 1
name: conformance
policies:
  - name: per-user
    when: request.route in ROUTES
    key: [request.user, 'request.claims["plan"]']
    authoritative: { algorithm: fixed_window_anchored, limit: 'request.claims["plan"] == "gold" ? 3 : 1', window: 1h }
`

// Policies see the user and the claims that the service sets.
func testIdentify(t *testing.T, f Framework) {
	s := newService(t, f, identified)
	s.Identified = true
	c := f.Start(t, s)

	for _, tt := range []struct{ user, plan, want string }{
		{"alice", "gold", "[200 200 200 429]"},
		{"bob", "free", "[200 429 429 429]"},
	} {
		var got []int
		for range 4 {
			got = append(got, send(t, c, "item", http.Header{"X-User": {tt.user}, "X-Plan": {tt.plan}}).Status)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s with plan %s: %v, want %s", tt.user, tt.plan, got, tt.want)
		}
	}
}
