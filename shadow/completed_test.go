package shadow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Once a migration is completed the authoritative is not asked any more, and nothing is
// compared. A rollback brings it back.
func TestCompletedMigrationsAskOneSide(t *testing.T) {
	algorithm := shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 3, Window: time.Hour}}
	var asked atomic.Int64 // the async queue asks, too
	allows := func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		asked.Add(1)
		return algorithms.Decision{Allowed: true, Remaining: -1}, nil
	}

	fails := func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errMine
	}

	custom := shadow.Side{Limiter: shadow.LimiterFunc(allows)}
	failing := shadow.Side{Limiter: shadow.LimiterFunc(fails)}

	for name, tt := range map[string]struct {
		cfg     shadow.PairConfig
		allowed int   // of 5, once completed
		asked   int64 // of the custom limiters
	}{
		"custom, to an algorithm": {shadow.PairConfig{Authoritative: custom, Candidate: algorithm}, 3, 0},
		"custom, to custom":       {shadow.PairConfig{Authoritative: custom, Candidate: custom}, 5, 5},
		"to one that fails":       {shadow.PairConfig{Authoritative: custom, Candidate: failing}, 5, 0}, // by the rule for failures
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := shadow.NewPair(tt.cfg)
			if err == nil {
				err = p.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(t.Context())
			allow := func() (n int) {
				for range 5 {
					if p.Allow(t.Context(), "k", 1).Allowed {
						n++
					}
				}
				synctest.Wait()
				return n
			}

			moved := func(_ stages.State, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // for the notification
			}

			store, order := inside.Stages(p), stages.Order{}
			moved(stages.Advance(t.Context(), store, "default", stages.Step{Stage: stages.Promoted}, order))
			moved(stages.Complete(t.Context(), store, "default", order))
			asked.Store(0)
			if n := allow(); n != tt.allowed || asked.Load() != tt.asked {
				t.Errorf("%s: %d of 5 allowed, and the custom limiter asked %d times, want %d and %d",
					name, n, asked.Load(), tt.allowed, tt.asked)
			}
			if n := testutil.CollectAndCount(p, "shadowlimit_stage"); n != len(stages.Stages) {
				t.Errorf("%s: %d stages exported", name, n)
			}

			syncNow(t, p)
			list, err := inside.Assess(t.Context(), p)
			if err != nil || list[0].Evidence.History.Total() != (evidence.Tally{}) {
				t.Errorf("%s: %v was compared, %v", name, list[0].Evidence.History.Total(), err)
			}

			moved(stages.Rollback(t.Context(), store, "default", order))
			asked.Store(0)
			if n := allow(); n != 5 || asked.Load() < 5 {
				t.Errorf("%s: rolled back, %d of 5 allowed, and the custom limiter asked %d times", name, n, asked.Load())
			}
		})
	}
}

// Once a migration is completed the candidate is the only side. A request that an open breaker keeps from it is a
// decision all the same: decisions_total is the denominator of the alert about fallbacks.
func TestCompletedMigrationsCountWhatABreakerSkips(t *testing.T) {
	fails := func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errMine
	}
	failing := shadow.Side{Limiter: shadow.LimiterFunc(fails)}

	synctest.Test(t, func(t *testing.T) {
		p, err := shadow.NewPair(shadow.PairConfig{Authoritative: failing, Candidate: failing})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(t.Context())

		store, order := inside.Stages(p), stages.Order{}
		_, promoted := stages.Advance(t.Context(), store, "default", stages.Step{Stage: stages.Promoted}, order)
		_, completed := stages.Complete(t.Context(), store, "default", order)
		if err := errors.Join(promoted, completed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the notification

		for range 40 {
			p.Allow(t.Context(), "k", 1)
		}
		fallbacks := metricOf(t, p, fallbacksTotal, "none") // sides without a limit have no local limiter
		failed := metricOf(t, p, "shadowlimit_decisions_total", "error")
		if fallbacks != 40 || failed != 40 {
			t.Errorf("%v fallbacks that allow and %v failed decisions, want 40 and 40", fallbacks, failed)
		}
	})
}
