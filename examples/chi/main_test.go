package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The tests run in a synctest bubble. Its clock stands still while they ask, so no
// window ends by chance.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) (*shadow.Harness, http.Handler) {
	t.Helper()
	harness, err := newHarness()
	if err != nil {
		t.Fatal(err)
	}
	return harness, newHandler(harness)
}

// items returns requests of a user for one item after the other.
func items(user string) func() *http.Request {
	n := 0
	return func() *http.Request {
		n++
		r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/items/%d", n), http.NoBody)
		r.Header.Set("X-User", user)
		return r
	}
}

// logins returns requests that a peer forwards for a client.
func logins(peer, forwardedFor string) func() *http.Request {
	from := exampletest.From(peer, http.MethodPost, "/v1/login")
	return func() *http.Request {
		r := from()
		r.Header.Set("X-Forwarded-For", forwardedFor)
		return r
	}
}

func TestAuthoritativeDecidesForEachUserOverAllItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		for _, user := range []string{"alice", "bob"} {
			if got := exampletest.Allowed(t, h, 6, items(user)); got != 5 {
				t.Errorf("%d items allowed for %s, want the authoritative's 5", got, user)
			}
		}

		want := map[string]int{"agree_allow": 10, "agree_deny": 2}
		if got := exampletest.Outcomes(t, harness, "items-per-user"); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

func TestOnlyTrustedProxiesNameTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		tests := []struct {
			why, peer, forwardedFor string
			want                    int
		}{
			{"a client behind the proxy", "127.0.0.1", "203.0.113.7", 3},
			{"another client", "127.0.0.1", "203.0.113.8", 3},
			{"the first client with an invented address", "127.0.0.1", "198.51.100.1, 203.0.113.7", 0},
			{"an untrusted peer with an invented address", "203.0.113.9", "198.51.100.2", 3},
			{"the same peer with another one", "203.0.113.9", "198.51.100.3", 0},
		}

		for _, tt := range tests {
			if got := exampletest.Allowed(t, h, 4, logins(tt.peer, tt.forwardedFor)); got != tt.want {
				t.Errorf("%s: %d logins allowed, want %d", tt.why, got, tt.want)
			}
		}

		want := map[string]int{"agree_allow": 3, "newly_denied": 6, "agree_deny": 11}
		if got := exampletest.Outcomes(t, harness, "logins-per-address"); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

func TestDenialIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		exampletest.Allowed(t, h, 5, items("alice"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, items("alice")())

		var problem struct {
			Status   int
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if problem.Status != 429 || !slices.Equal(problem.Violated, []string{"items-per-user"}) {
			t.Errorf("%+v, want status 429 by items-per-user", problem)
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("type %q, want problem details", got)
		}
	})
}

func TestMetricsAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		exampletest.Allowed(t, h, 4, logins("127.0.0.1", "203.0.113.7"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))

		want := `name="shop",outcome="newly_denied",policy="logins-per-address"} 2`
		if !strings.Contains(w.Body.String(), want) || w.Header().Get("RateLimit") != "" {
			t.Errorf("%v, no %s in:\n%s", w.Header(), want, w.Body)
		}
	})
}

func TestCandidateDecidesWhilePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		exampletest.Promote(t, harness, "logins-per-address")
		if got := exampletest.Allowed(t, h, 4, logins("127.0.0.1", "203.0.113.7")); got != 1 {
			t.Errorf("promoted: %d allowed, want the candidate's 1", got)
		}

		exampletest.Rollback(t, harness, "logins-per-address")
		if got := exampletest.Allowed(t, h, 4, logins("127.0.0.1", "203.0.113.8")); got != 3 {
			t.Errorf("rolled back: %d allowed, want the authoritative's 3", got)
		}
	})
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, "localhost:0"); err != nil {
		t.Error(err)
	}
}
