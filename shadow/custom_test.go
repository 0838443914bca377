package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The authoritative, wherever it is, stands in for an enforced custom candidate that
// fails, and the failure is counted.
func TestFailingCustomCandidateIsStoodInFor(t *testing.T) {
	failing := map[string]shadow.LimiterFunc{
		"errs": func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			return algorithms.Decision{}, errMine
		},
		"panics": func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) { panic(errMine) },
		"hangs": func(ctx context.Context, _ string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
			<-ctx.Done()
			return algorithms.Decision{}, ctx.Err()
		},
	}

	authoritatives := map[string]string{
		"an algorithm": "{ algorithm: fixed_window_anchored, limit: 2, window: 1h }",
		"custom":       "{ limiter: old }",
	}

	count := map[string]int{}
	old := shadow.LimiterFunc(func(_ context.Context, key string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
		count[key]++
		return algorithms.Decision{Allowed: count[key] <= 2, Remaining: -1}, nil
	})

	for what, candidate := range failing {
		for side, authoritative := range authoritatives {
			clear(count)
			client := redisAt(t, miniredis.RunT(t).Addr())
			h := open(t, withSides(authoritative, "{limiter: new}"), shadow.Config{
				Redis: client, Limiters: map[string]shadow.Limiter{"new": candidate, "old": old},
			})
			h.Grow()

			advance(t, stages.NewRedisStore(client, name), policy, stages.Step{Stage: stages.Promoted})
			syncNow(t, h)

			n, patience := 0, 20*time.Second // the client's
			if what == "hangs" {
				patience = 50 * time.Millisecond
			}

			for range 4 {
				short, cancel := context.WithTimeout(ctx(t), patience)
				if h.Decide(short, &policies.Request{User: "alice"}).Allowed {
					n++
				}
				cancel()
			}

			syncNow(t, h)
			a := assess(t, client)
			got := a.Evidence.History.Total()
			if what != "hangs" && (n != 2 || got[evidence.CandidateError] != 4) {
				t.Errorf("%s, %s authoritative: %d of 4 allowed, counted %v, want the authoritative's 2 and 4 errors", what, side, n, got)
			}
			if got.Comparisons()+got.Uncompared() != 4 {
				t.Errorf("%s, %s authoritative: counted %v: a candidate that fails leaves no trace", what, side, got)
			}
		}
	}
}

func TestUnknownLimitersAreRefused(t *testing.T) {
	const text = `{version: 1, name: a, policies: [{name: p, key: request.ip, authoritative: {limiter: mine}}]}`
	set, err := policies.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := shadow.New(shadow.Config{Policies: set}); err == nil || !strings.Contains(err.Error(), `no limiter "mine"`) {
		t.Errorf("error %v", err)
	}
}

var errMine = errors.New("mine is out of order")

func TestCustomLimiterInAFile(t *testing.T) {
	calls := 0
	mine := shadow.LimiterFunc(func(_ context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
		if calls++; calls == 4 {
			return algorithms.Decision{}, errMine
		}
		return algorithms.Decision{Allowed: key == "alice" && l.Requests == 7 && cost == 3, Remaining: -1}, nil
	})

	h := open(t, `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    cost: 3
    on_store_failure: deny
    authoritative: { limiter: mine, limit: 7, window: 1s }
    candidate: { algorithm: gcra, limit: 3, window: 1h }
`, shadow.Config{Limiters: map[string]shadow.Limiter{"mine": mine}})
	h.Grow()
	tests := []struct {
		user         string
		want, answer bool
	}{{"alice", true, true}, {"alice", true, true}, {"bob", false, true}, {"alice", false, false}}
	for i, tt := range tests {
		if d := ask(t, h, tt.user); d.Allowed != tt.want || d.Fallback == tt.answer {
			t.Errorf("request %d: %+v, want %+v", i, d, tt)
		}
	}

	for outcome, want := range map[string]float64{"agree_allow": 1, "authoritative_error": 1, "newly_allowed": 1, "newly_denied": 1, "": 4} {
		if got := comparisons(t, h, outcome); got != want {
			t.Errorf("%g of outcome %q, want %g", got, outcome, want)
		}
	}
}

// slow is a limiter that heeds its context and needs some time.
func slow(d time.Duration) shadow.Limiter {
	return shadow.LimiterFunc(func(ctx context.Context, _ string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
		select {
		case <-ctx.Done():
			return algorithms.Decision{}, ctx.Err()
		case <-time.After(d):
			return algorithms.Decision{Allowed: true}, nil
		}
	})
}

func TestClientThatLeavesIsNoErrorOfTheCandidate(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, withSides("{algorithm: gcra, limit: 100, window: 1h}", "{limiter: new}"),
		shadow.Config{Redis: client, Limiters: tomorrows(slow(5 * time.Millisecond))})
	h.Grow()
	promote(t, h, client)

	for range 10 {
		c, cancel := context.WithCancel(ctx(t))
		cancel()
		h.Decide(c, &policies.Request{User: "alice"})
	}

	errors, fallbacks := comparisons(t, h, "candidate_error"), metric(t, h, fallbacksTotal)
	if errors != 0 || fallbacks != 0 {
		t.Errorf("%g candidate errors and %g fallbacks because clients left", errors, fallbacks)
	}

	// The gate's coverage sees them: many clients that leave keep it from a pass.
	if skipped := metricOf(t, h, "shadowlimit_skipped_comparisons_total", "other"); skipped != 10 {
		t.Errorf("%g comparisons skipped for another reason, want 10", skipped)
	}
}

// A client that leaves while a custom authoritative decides gets no answer, so no rule
// has decided in its place.
func TestClientThatLeavesIsNoFallback(t *testing.T) {
	old := shadow.LimiterFunc(func(ctx context.Context, _ string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
		return algorithms.Decision{Allowed: true}, ctx.Err()
	})

	h := open(t, withSides("{limiter: new}", "{algorithm: gcra, limit: 100, window: 1h}"), shadow.Config{Limiters: tomorrows(old)})

	gone, cancel := context.WithCancel(ctx(t))
	cancel()
	for range 10 {
		h.Decide(gone, &policies.Request{User: "alice"})
	}

	ask(t, h, "alice")

	fallbacks, failed := metric(t, h, fallbacksTotal), metricOf(t, h, "shadowlimit_decisions_total", "error")
	if fallbacks != 0 || failed != 0 {
		t.Errorf("%g fallbacks and %g errors because clients left", fallbacks, failed)
	}
}

func TestAsyncSideIsJudgedByTheInjectedClock(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	at := time.Unix(1_700_000_000, 0)
	var seen []shadow.Comparison
	h := open(t, withSides("{limiter: new}", "{algorithm: gcra, limit: 2, window: 1h}"), shadow.Config{
		Redis:    client,
		Clock:    func() time.Time { return at },
		Observer: func(c shadow.Comparison) { seen = append(seen, c) },
		Limiters: tomorrows(shadow.AllowFunc(func(string) bool { return true })),
	})

	ask(t, h, "alice")
	h.Close(ctx(t))

	if len(seen) != 1 || !seen[0].Observed[1].At.Equal(at) {
		t.Errorf("candidate judged at %v, want the clock's %v", seen[0].Observed[1].At, at)
	}
}

// Clients that give an enforced custom candidate no time to answer must not take it away
// from the others.
func TestCallersInAHurryDoNotOpenTheBreakerOfACandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			time.Sleep(5 * time.Millisecond)
			return algorithms.Decision{Allowed: true, Remaining: -1}, nil
		})
		pair, err := shadow.NewPair(shadow.PairConfig{
			Authoritative: shadow.Side{Limiter: always}, Candidate: shadow.Side{Limiter: near},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = pair.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close(t.Context())
		syncNow(t, pair)
		advance(t, inside.Stages(pair), "default", stages.Step{Stage: stages.Promoted})
		syncNow(t, pair)

		for range 10 {
			hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			pair.Allow(hurried, "alice", 1)
			cancel()
		}

		if d := pair.Allow(t.Context(), "bob", 1); d.Fallback || d.Enforced != algorithms.Candidate {
			t.Errorf("%+v after callers in a hurry, want the candidate's answer", d)
		}
	})
}

// Evidence is kept by hours of the store's clock, which all instances share. Hours of an
// injected clock would not be read, or be thrown away as too old.
func TestEvidenceIsNotDatedByTheInjectedClock(t *testing.T) {
	server := miniredis.RunT(t)
	now := time.Now().Truncate(time.Second)
	server.SetTime(now)

	client := redisAt(t, server.Addr())
	var seen []shadow.Comparison
	h := open(t, file, shadow.Config{
		Redis:    client,
		Clock:    func() time.Time { return now.Add(-30 * 24 * time.Hour) },
		Observer: func(c shadow.Comparison) { seen = append(seen, c) },
	})
	syncNow(t, h)
	ask(t, h, "alice")

	if len(seen) != 1 || seen[0].At.Before(now.Add(-time.Minute)) {
		t.Errorf("compared at %v, want the store's %v", seen, now)
	}

	// The ledger has it in the hour in which it is looked for.
	syncNow(t, h)
	if n := assess(t, client).Evidence.History.Total().Comparisons(); n != 1 {
		t.Errorf("%d comparisons in the evidence, want 1", n)
	}
}

func TestSkippedIsNoErrorOfASide(t *testing.T) {
	released := make(chan struct{})
	hangs := shadow.AllowFunc(func(string) bool { <-released; return true })
	h := open(t, withSides("{algorithm: gcra, limit: 2, window: 1h}", "{limiter: new}"), shadow.Config{Limiters: tomorrows(hangs)})

	for range 1000 {
		ask(t, h, "alice")
	}

	if e := metricOf(t, h, "shadowlimit_decisions_total", "error"); e != 0 {
		t.Errorf("%g errors, inconclusive %g", e, comparisons(t, h, "inconclusive"))
	}
	close(released)
}

func TestCallCutShortByCloseIsNoErrorOfTheCandidate(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, withSides("{algorithm: gcra, limit: 2, window: 1h}", "{limiter: new}"),
		shadow.Config{Redis: client, Limiters: tomorrows(slow(700 * time.Millisecond))})

	h.Sync(ctx(t))
	for range 3 {
		ask(t, h, "alice")
	}

	h.Close(ctx(t))

	got := assess(t, client).Evidence.History.Total()
	if got[evidence.CandidateError] != 0 {
		t.Errorf("%v: a call that close cut short is an error of the candidate", got)
	}
}

func TestAuthoritativesLocalLimiterStandsInForACustomCandidate(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	dead := shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errors.New("its redis is dead")
	})

	h := open(t, withSides("{algorithm: gcra, limit: 2, window: 1h}", "{limiter: new}"),
		shadow.Config{Redis: client, Limiters: tomorrows(dead)})
	promote(t, h, client)

	server.Close()
	if n := allowed(t, h, "alice"); n != 2 {
		t.Errorf("%d of 10 allowed, want the local stand-in's 2", n)
	}
}

// Where only one side has a budget in each instance, that is the cause of a difference.
func TestDifferencesOfALimiterPerProcess(t *testing.T) {
	const each = "{limiter: new, limit: 1, window: 1h, per_process: true}"
	for candidate, cause := range map[string]string{
		"{algorithm: gcra, limit: 3, window: 1h}":                      "per_process",
		"{limiter: other, limit: 3, window: 1h, per_process: true}":    "other",
		"{limiter: other, revision: fleet-wide, limit: 3, window: 1h}": "per_process",
	} {
		denies := shadow.AllowFunc(func(string) bool { return false })
		allows := shadow.AllowFunc(func(string) bool { return true })
		h := open(t, withSides(each, candidate), shadow.Config{Limiters: map[string]shadow.Limiter{"new": denies, "other": allows}})
		h.Grow()
		ask(t, h, "alice")
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := metricOf(t, h, "shadowlimit_divergence_causes_total", cause); got != 1 {
			t.Errorf("%s: %g differences by %s, want 1", candidate, got, cause)
		}
	}
}
