package shadow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

func TestReloadAfterCloseStartsNothing(t *testing.T) {
	text := "version: 1\nname: test\npolicies:\n  - {name: p, key: request.user, " +
		"authoritative: {algorithm: gcra, limit: 2, window: 1h}, candidate: {limiter: new}}\n"
	h, err := New(Config{
		Policies: mustSet(t, text), Logger: slog.New(slog.DiscardHandler),
		Limiters: map[string]Limiter{"new": AllowFunc(func(string) bool { return true })},
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	h.Close(context.Background())

	// TestMain finds the goroutines that this reload starts.
	other := mustSet(t, strings.Replace(text, "limit: 2", "limit: 3", 1))
	if err := h.Reload(other); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

func mustSet(t *testing.T, text string) *policies.Set {
	set, err := policies.Load("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A cost below 0 is no failure of a store, which some rule allows, and no refund: it is denied,
// and no limiter is asked.
func TestNegativeCostIsDenied(t *testing.T) {
	limit := algorithms.Limit{Requests: 1, Window: time.Minute}
	own := Side{Algorithm: algorithms.GCRA{}, Limit: limit}
	custom := Side{Limiter: AllowFunc(func(string) bool { return true }), Limit: limit}
	for _, authoritative := range []Side{own, custom} {
		candidate := Side{Algorithm: algorithms.FixedWindow{}, Limit: limit}
		p, err := NewPair(PairConfig{Authoritative: authoritative, Candidate: candidate, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}

		for _, rule := range []string{"local", "allow", "deny"} {
			p.policy.OnFailure = rule
			d := p.Allow(t.Context(), "k", -1)
			if d.Allowed || d.Fallback || d.RetryAfter != algorithms.Never || d.Capacity != 1 || d.Unenforced().Status != algorithms.NotAsked {
				t.Errorf("%s: a cost of -1: %+v", rule, d)
			}
		}
		if d := p.Allow(t.Context(), "k", 1); !d.Allowed || !d.Unenforced().Decision.Allowed {
			t.Errorf("the negative cost was charged: %+v", d)
		}
		p.Close(context.Background())
	}
}
