package httplimit_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// fixed is a limiter that always returns the same decision.
type fixed struct{ algorithms.Decision }

func (f fixed) Allow(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	return f.Decision, nil
}

const custom = `
version: 1
name: test
policies:
  - { name: p, key: request.ip, authoritative: { limiter: mine, limit: 9007199254740991, window: 1m } }
`

// For every decision of a custom limiter, clients can parse the fields, and Retry-After is at least t.
func TestFieldsOfExtremeDecisions(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(custom))
	if err != nil {
		t.Fatal(err)
	}

	for _, d := range []algorithms.Decision{
		{RetryAfter: math.MaxInt64 - 1},
		{RetryAfter: algorithms.Never},
		{RetryAfter: algorithms.Never, ResetAfter: algorithms.Never},
		{RetryAfter: -1, ResetAfter: -1, Capacity: -1},
		{RetryAfter: 1},
		{Allowed: true, Capacity: math.MaxInt64, Remaining: math.MaxInt64, ResetAfter: math.MaxInt64},
	} {
		h, err := shadow.New(shadow.Config{Policies: set, Limiters: map[string]shadow.Limiter{"mine": fixed{d}}})
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}

		w := httptest.NewRecorder()
		limited := httplimit.New(h, httplimit.Config{RetryJitter: 1})(http.NotFoundHandler())
		limited.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := httpsfv.UnmarshalList(w.Header()["Ratelimit-Policy"]); err != nil {
			t.Errorf("%+v: %v: %v", d, w.Header(), err)
		}

		list, err := httpsfv.UnmarshalList(w.Header()["Ratelimit"])
		if err != nil || len(list) != 1 {
			t.Errorf("%+v: %v: %v", d, w.Header(), err)
			continue
		}

		reset, found := list[0].(httpsfv.Item).Params.Get("t")
		if never := !d.Allowed && d.RetryAfter == algorithms.Never || d.Allowed && d.ResetAfter == algorithms.Never; found == never {
			t.Errorf("%+v: %v: has t: %t, want %t", d, w.Header(), found, !never)
		}
		if after := w.Header().Get("Retry-After"); after != "" {
			if n, err := strconv.ParseInt(after, 10, 64); err != nil || n < reset.(int64) {
				t.Errorf("%+v: %v: %v", d, w.Header(), err)
			}
		}
	}
}

// Trusted prefixes may be written as a dual-stack socket shows their addresses.
func TestTrustedPrefixesInIPv6(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[::ffff:10.0.0.1]:80"
	r.Header.Set("X-Forwarded-For", "1.2.3.4")
	if got := httplimit.ForwardedFor(netip.MustParsePrefix("::ffff:10.0.0.0/104"))(r); got != "1.2.3.4" {
		t.Errorf("got %s", got)
	}
}
