package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The tests run in a synctest bubble, whose clock stands still, so that no window ends
// by chance.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const policy = "per-account"

func open(t *testing.T) (*shadow.Harness, http.Handler) {
	t.Helper()
	harness, err := newHarness(newCounters())
	if err != nil {
		t.Fatal(err)
	}
	return harness, newHandler(harness)
}

func search(account string) func() *http.Request {
	return func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/search", http.NoBody)
		r.Header.Set("X-Account", account)
		return r
	}
}

func TestOldLimiterDecidesAndItsAnswerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		if got := exampletest.Allowed(t, h, 6, search("acme")); got != 5 {
			t.Errorf("%d allowed, want the old limiter's 5", got)
		}

		const body = `{"error":"quota_exceeded","retry_in_ms":60000}`
		fields := map[string]string{
			"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60", "Retry-After": "60",
		}

		w := httptest.NewRecorder()
		h.ServeHTTP(w, search("acme")())
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusTooManyRequests || got != body {
			t.Errorf("%d %s, want 429 %s", w.Code, got, body)
		}
		for name, want := range fields {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}

		want := map[string]int{"agree_allow": 3, "newly_denied": 2, "agree_deny": 2}
		if got := exampletest.Outcomes(t, harness, policy); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

func TestCandidateDecidesWhilePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, h := open(t)
		defer exampletest.Close(t, harness)

		exampletest.Promote(t, harness, policy)
		if got := exampletest.Allowed(t, h, 6, search("globex")); got != 3 {
			t.Errorf("promoted: %d allowed, want the candidate's 3", got)
		}

		exampletest.Rollback(t, harness, policy)
		synctest.Wait() // while the old limiter is not enforced, the async queue asks it
		if got := exampletest.Allowed(t, h, 6, search("globex")); got != 0 {
			t.Errorf("rolled back: %d allowed, want none: the old limiter has kept counting", got)
		}
		if got := exampletest.Allowed(t, h, 6, search("initech")); got != 5 {
			t.Errorf("rolled back: %d allowed, want the old limiter's 5", got)
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
