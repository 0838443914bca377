package policies_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/policies"
)

func TestChecksOfRequests(t *testing.T) {
	tests := []struct {
		name                 string
		method, route, path  string
		tenant               []string // values of the header x-tenant
		wantKey              string   // "": the policy does not match
		wantCost, wantLimits int64
	}{
		{"a read does not match", "GET", "/v1/orders", "/v1/orders", nil, "", 0, 0},
		{"another route does not match", "POST", "/v2/orders", "/v2/orders", nil, "", 0, 0},
		{"no header: the default", "POST", "/v1/orders", "/v1/orders", nil, "anonymous|/v1/orders", 1, 100},
		{"a bulk request costs ten", "PUT", "/v1/bulk/{id}", "/v1/bulk/7", []string{"acme"}, "acme|/v1/bulk/{id}", 10, 9000},
		{"separators are escaped", "PUT", "/v1/a", "/v1/a", []string{`a|b\`}, `a\|b\\|/v1/a`, 1, 100},
		{"the first of several values", "PUT", "/v1/a", "/v1/a", []string{"a", "b"}, "a|/v1/a", 1, 100},
	}

	p := loadPolicy(t, checkout(t))
	var r policies.Request
	for _, tt := range tests {
		r.Reset()
		r.Method, r.Route, r.Path = tt.method, tt.route, tt.path
		r.Headers = http.Header{"X-Tenant": tt.tenant}

		c, matches, err := p.Check(t.Context(), &r)
		if err != nil || matches != (tt.wantKey != "") {
			t.Errorf("%s: matches %v, error %v", tt.name, matches, err)
			continue
		}
		if !matches {
			continue
		}

		got := c.Sides[algorithms.Candidate]
		if c.Key != tt.wantKey || c.Cost != tt.wantCost {
			t.Errorf("%s: key %q cost %d, want %q %d", tt.name, c.Key, c.Cost, tt.wantKey, tt.wantCost)
		}
		want := algorithms.Limit{Requests: tt.wantLimits, Window: time.Minute, Burst: 20}
		if got.Algorithm.Name() != "token_bucket" || got.Limit != want {
			t.Errorf("%s: candidate %+v, want a token_bucket with %+v", tt.name, got, want)
		}
	}
}

func TestEveryRequestFieldIsThere(t *testing.T) {
	five := int64(5)
	for expression, want := range map[string]string{
		"request.method":         "GET",
		"request.path":           "/p",
		"request.route":          "/r",
		"request.host":           "h",
		"request.query['q']":     "1",
		"request.headers['x-a']": "v",
		"request.ip":             "192.0.2.1",
		"request.user":           "u",
		"request.claims['plan']": "gold",
		"request.size":           "7",
		"request.domain":         "edge",
		"request.cost":           "5",

		"request.descriptors['user']":               "ann",
		"request.descriptors[?'none'].orValue('n')": "n",
		"request.time.getHours()":                   "9",

		// All headers at once take another way than one of them.
		"request.headers.size()":                  "1",
		"request.headers.exists(h, h == 'x-a')":   "true",
		"'x-a' in request.headers":                "true",
		"('X' + '-A') in request.headers":         "false",
		"request.headers == {'x-a': 'v'}":         "true",
		"request.headers[request.headers['x-a']]": "", // an absent one, whose name is computed
	} {
		r := policies.Request{
			Method: "GET", Path: "/p", Route: "/r", Host: "h", RawQuery: "q=1&q=2",
			Headers: http.Header{"X-A": {"v"}},
			IP:      "192.0.2.1", User: "u", Claims: map[string]any{"plan": "gold"}, Size: 7,
			Domain: "edge", Descriptors: map[string]string{"user": "ann"}, Cost: &five,
			Time: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		}

		c, matches, err := loadPolicy(t, onePolicy(`key: "`+expression+`"`)).Check(t.Context(), &r)
		if c.Key != want || matches != (want != "") || (err == nil) != matches {
			t.Errorf("%s: key %q, error %v, want %q", expression, c.Key, err, want)
		}
	}
}

// A policy without a cost takes what the caller says, and any other its own.
func TestCallersSayTheCost(t *testing.T) {
	three, none, negative := int64(3), int64(0), int64(-1)

	for _, tt := range []struct {
		fields string
		said   *int64
		want   int64 // -1: an error
	}{
		{"key: request.domain", nil, 1},
		{"key: request.domain", &three, 3},
		{"key: request.domain", &none, 0},
		{"key: request.domain", &negative, -1},
		{"key: request.domain\n    cost: 2", &three, 2},
		{"key: request.domain\n    cost: 2", &negative, 2},
		{"key: request.domain\n    cost: 10 * request.cost", &three, 30},
		{"key: request.domain\n    cost: 10 * request.cost", nil, 10},
	} {
		r := policies.Request{Domain: "edge", Cost: tt.said}
		c, _, err := loadPolicy(t, onePolicy(tt.fields)).Check(t.Context(), &r)
		if (err != nil) != (tt.want < 0) || err == nil && c.Cost != tt.want {
			t.Errorf("%q with %v: cost %d, error %v, want %d", tt.fields, tt.said, c.Cost, err, tt.want)
		}
	}
}

func TestExpressionsThatFailCheckNothing(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: request.headers['x-tenant']"))
	if c, matches, err := p.Check(t.Context(), &policies.Request{}); err == nil || matches || c.Key != "" {
		t.Errorf("a header that is absent: %+v, %v, %v, want an error", c, matches, err)
	}
}

func TestWhatCannotBeChargedIsAnError(t *testing.T) {
	tests := []struct{ name, fields string }{
		{"a cost below 0", "key: request.ip\n    cost: request.size"},
		{"a key that is a list", "key: request.claims['roles']"},
	}

	for _, tt := range tests {
		r := &policies.Request{Size: -1, Claims: map[string]any{"roles": []string{"a"}}}
		c, matches, err := loadPolicy(t, onePolicy(tt.fields)).Check(t.Context(), r)
		if err == nil || matches || c.Sides[0].Present() {
			t.Errorf("%s: charged %+v, %v, %v, want an error", tt.name, c, matches, err)
		}
	}
}

func TestLongKeysAreHashed(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: request.path"))
	c, _, err := p.Check(t.Context(), &policies.Request{Path: strings.Repeat("x", 257)})
	if err != nil || len(c.Key) != 65 || c.Key[0] != '#' {
		t.Errorf("key %q, error %v, want # and 64 digits", c.Key, err)
	}
}

// Distinct tuples make distinct keys, whatever is in them. The fields are those that
// expressions see as received: two spellings of one host are one host.
func TestKeysOfTuplesNeverCollide(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: [request.user, request.path, request.method]"))
	separators := rapid.SampledFrom([]rune{'|', '\\', '#', 0, 'a', 'é'})
	element := rapid.OneOf(
		rapid.String(), rapid.StringOfN(separators, 0, 5, -1), rapid.Just(""), rapid.Just(strings.Repeat("x", 300)),
	)

	rapid.Check(t, func(t *rapid.T) {
		tuple := func(name string) [3]string {
			return [3]string{element.Draw(t, name), element.Draw(t, name), element.Draw(t, name)}
		}
		key := func(tuple [3]string) string {
			r := &policies.Request{User: tuple[0], Path: tuple[1], Method: tuple[2]}
			c, _, err := p.Check(t.Context(), r)
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

func TestClientsOfOneNetworkAreOne(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: ipGroup(request.ip)"))
	for ip, want := range map[string]string{
		"192.0.2.1":             "192.0.2.1",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::/64",
		"2001:db8:1:2::9":       "2001:db8:1:2::/64",
		"::ffff:192.0.2.1":      "192.0.2.1",
		"fe80::1%eth0":          "fe80::/64",
		"no address":            "no address",
		"":                      "",
		"192.0.2.1, 192.0.2.17": "192.0.2.1, 192.0.2.17",
	} {
		if c, _, err := p.Check(t.Context(), &policies.Request{IP: ip}); err != nil || c.Key != want {
			t.Errorf("%s: key %q, %v, want %q", ip, c.Key, err, want)
		}
	}

	wide := loadPolicy(t, onePolicy("key: ipGroup(request.ip, 24, 48)"))
	if c, _, err := wide.Check(t.Context(), &policies.Request{IP: "192.0.2.77"}); err != nil || c.Key != "192.0.2.0/24" {
		t.Errorf("key %q, %v", c.Key, err)
	}
}

func TestExtensions(t *testing.T) {
	r := &policies.Request{IP: "10.1.2.3", User: "Ab", Path: "/a/b", Claims: map[string]any{"roles": []string{"x"}}}

	for expression, want := range map[string]string{
		"cidr('10.0.0.0/8').containsIP(request.ip)":    "true",
		"request.user.lowerAscii()":                    "ab",
		"request.path.split('/')[1]":                   "a",
		"math.greatest(1, 7)":                          "7",
		"string(ip(request.ip).family())":              "4",
		"request.claims.roles.exists(r, r == 'x')":     "true",
		"request.claims[?'none'].hasValue()":           "false",
		"optional.of(request.user).orValue('nothing')": "Ab",
	} {
		c, _, err := loadPolicy(t, onePolicy(`key: "`+expression+`"`)).Check(t.Context(), r)
		if err != nil || c.Key != want {
			t.Errorf("%s: key %q, %v, want %q", expression, c.Key, err, want)
		}
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

	_, err = policies.ParseKey("--key", "request.ipp")
	if err == nil || !strings.Contains(err.Error(), "--key:1:1: key: there is no request.ipp: did you mean request.ip?") {
		t.Errorf("%v", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	p := loadPolicy(b, checkout(b))
	h := http.Header{"X-Tenant": {"acme"}}

	var r policies.Request
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		r.Method, r.Route, r.Path, r.Headers = "POST", "/v1/orders", "/v1/orders", h
		if _, ok, err := p.Check(b.Context(), &r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// longestDelay fills a queue at one instant, and returns the longest delay.
func longestDelay(t *testing.T, a algorithms.Algorithm, l algorithms.Limit) (longest time.Duration) {
	t.Helper()
	var s algorithms.State
	for {
		next, d, err := a.Step(s, &l, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			return longest
		}
		s, longest = next, max(longest, d.Delay)
	}
}

// The delay that validate announces is the longest one that a key can get, whatever algorithm it is that delays.
func TestLongestDelayIsTheLongest(t *testing.T) {
	delaying := 0
	for _, a := range algorithms.All {
		if !algorithms.TraitsOf(a).Delays {
			continue
		}
		delaying++

		fields := "algorithm: " + a.Name() + ", limit: 10, window: 1m, burst: 7"
		authoritative := loadPolicy(t, side(fields)).Sides[algorithms.Authoritative]
		limit, _ := authoritative.Constant()
		if longest, want := longestDelay(t, a, limit), authoritative.LongestDelay(); longest != want {
			t.Errorf("%s delays a check of cost 1 by up to %s, and Side.LongestDelay says %s: teach it the formula", fields, longest, want)
		}
	}
	if delaying == 0 {
		t.Error("no algorithm delays: this test and LongestDelay are not needed any more")
	}
}

// A limit of 0 is a limit, also of an algorithm that needs a burst. It is not the limit that was left out.
func TestLimitOfZeroIsALimit(t *testing.T) {
	for _, fields := range []string{"algorithm: leaky_bucket, limit: 0, window: 1m", "algorithm: gcra, limit: 0, window: 1m, burst: 5"} {
		p := loadPolicy(t, side(fields))
		check, matches, err := p.Check(t.Context(), &policies.Request{Method: "GET", Path: "/", IP: "1.2.3.4"})
		if l := check.Sides[0].Limit; err != nil || !matches || l.Capacity() != 0 || l.Window != time.Minute {
			t.Errorf("%s: charged with %s, error %v", fields, l, err)
		}
		if delay := p.Sides[0].LongestDelay(); delay != 0 {
			t.Errorf("%s: nothing is admitted, and LongestDelay says %s", fields, delay)
		}
	}
}

// A log's size is bounded by its limit, and by the bound of a log where that is larger or an expression.
func TestLargestLog(t *testing.T) {
	for fields, want := range map[string]int64{
		"algorithm: sliding_window_log, limit: 100, window: 1m":                             100 * algorithms.LogEntryBytes,
		"algorithm: sliding_window_log, limit: 100000, window: 1m":                          1_600_000,
		"algorithm: sliding_window_log, limit: 'request.path == \"/\" ? 1 : 2', window: 1m": 1_600_000,
		"algorithm: gcra, limit: 100, window: 1m":                                           0,
	} {
		if got := loadPolicy(t, side(fields)).Sides[algorithms.Authoritative].LargestLog(); got != want {
			t.Errorf("%s: %d bytes, want %d", fields, got, want)
		}
	}
}
