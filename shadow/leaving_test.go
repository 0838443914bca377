package shadow_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// pairAt is a pair in memory that enforces a side, and what it has compared.
func pairAt(t *testing.T, enforced algorithms.Role, sides [2]shadow.Side) (pair *shadow.Pair, seen *[]shadow.Comparison) {
	t.Helper()
	seen = new([]shadow.Comparison)
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: sides[algorithms.Authoritative], Candidate: sides[algorithms.Candidate],
		Observer: func(c shadow.Comparison) { *seen = append(*seen, c) },
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { pair.Close(ctx(t)) })
	syncNow(t, pair)
	if enforced == algorithms.Candidate {
		advance(t, inside.Stages(pair), "default", stages.Step{Stage: stages.Promoted})
		syncNow(t, pair)
	}
	return pair, seen
}

// leaves is a custom limiter that spends, and whose clients may leave before its answer.
var leaves = shadow.LimiterFunc(func(ctx context.Context, _ string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
	return algorithms.Decision{Allowed: true, Remaining: -1}, ctx.Err()
})

// Clients that leave before an enforced custom candidate has answered are limited all the
// same: the authoritative beside it stands in.
func TestClientThatLeavesIsLimited(t *testing.T) {
	two := shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 2, Window: time.Hour}}
	pair, _ := pairAt(t, algorithms.Candidate, [2]shadow.Side{two, {Limiter: leaves}})

	gone, cancel := context.WithCancel(ctx(t))
	cancel()
	n := 0
	for range 10 {
		if pair.Allow(gone, "alice", 1).Allowed {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of 10 requests are allowed whose clients left, want the authoritative's 2", n)
	}
}

// A check whose client has left is no comparison; those after it are.
func TestClientThatLeavesIsNotCompared(t *testing.T) {
	for _, enforced := range []algorithms.Role{algorithms.Authoritative, algorithms.Candidate} {
		t.Run(enforced.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := algorithms.Limit{Requests: 1, Window: time.Minute}
				var sides [2]shadow.Side
				sides[enforced] = shadow.Side{Limiter: leaves, Limit: one}
				sides[enforced.Other()] = shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: one}
				pair, seen := pairAt(t, enforced, sides)

				gone, leave := context.WithCancel(t.Context())
				leave()
				pair.Allow(gone, "alice", 1)
				time.Sleep(time.Hour)
				*seen = nil
				for _, key := range []string{"alice", "bob"} {
					pair.Allow(t.Context(), key, 1)
				}

				var outcomes []shadow.Outcome
				for _, c := range *seen {
					outcomes = append(outcomes, c.Outcome)
				}
				if want := []shadow.Outcome{shadow.AgreeAllow, shadow.AgreeAllow}; !slices.Equal(outcomes, want) {
					t.Errorf("outcomes %v, want %v", outcomes, want)
				}
			})
		})
	}
}

// A side in memory is judged in the request, beside a custom limiter that is enforced: no queue can drop its check.
func TestSideInMemoryIsJudgedBesideACustomOne(t *testing.T) {
	one := algorithms.Limit{Requests: 1, Window: time.Minute}
	for _, enforced := range []algorithms.Role{algorithms.Authoritative, algorithms.Candidate} {
		var sides [2]shadow.Side
		sides[enforced] = shadow.Side{Limiter: always}
		sides[enforced.Other()] = shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: one}
		pair, _ := pairAt(t, enforced, sides)

		if d := pair.Allow(ctx(t), "alice", 1); d.Unenforced().Status != algorithms.Judged {
			t.Errorf("%s enforced: %+v, want both sides judged", enforced, d)
		}
	}
}

// Clients that leave a custom authoritative before its answer are not charged beside it: a candidate would be charged
// alone, as often as a client likes.
func TestClientThatLeavesChecksNoCandidate(t *testing.T) {
	one := algorithms.Limit{Requests: 1, Window: time.Hour}
	pair, _ := pairAt(t, algorithms.Authoritative, [2]shadow.Side{{Limiter: leaves}, {Algorithm: algorithms.FixedWindow{}, Limit: one}})
	gone, leave := context.WithCancel(ctx(t))
	leave()
	for range 10 {
		pair.Allow(gone, "alice", 1)
	}

	if d := pair.Allow(ctx(t), "alice", 1); !d.Unenforced().Decision.Allowed {
		t.Errorf("%+v, want the candidate to allow the first request that has waited for its answer", d)
	}
}
