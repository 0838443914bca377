package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func ledgerOf(client redis.UniversalClient) evidence.Ledger {
	return evidence.NewRedisLedger(client, name)
}

// panicking is a user's algorithm that embeds one of this module's, and so has its Terms.
type panicking struct{ algorithms.GCRA }

func (panicking) Name() string { return "panicking" }

func (panicking) Step(algorithms.State, *algorithms.Limit, int64, int64) (algorithms.State, algorithms.Decision, error) {
	panic("no such thing as a step")
}

func (panicking) Validate(algorithms.Limit) error { return nil }

// candidates are good and bad ones; the hanging end with ctx.
func candidates(hanging context.Context) map[string]shadow.Side {
	limit := algorithms.Limit{Requests: 3, Window: time.Minute}
	custom := func(f shadow.LimiterFunc) shadow.Side { return shadow.Side{Limiter: f} }

	return map[string]shadow.Side{
		"healthy": {Algorithm: algorithms.GCRA{}, Limit: limit},
		"panics":  {Algorithm: panicking{}, Limit: limit},
		"panics2": custom(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) { panic("no") }),
		"fails": custom(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			return algorithms.Decision{}, errors.New("no")
		}),
		"garbage": custom(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			return algorithms.Decision{Remaining: -7, RetryAfter: -time.Hour, Delay: -1, Capacity: -1}, nil
		}),
		"hangs": custom(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			<-hanging.Done()
			return algorithms.Decision{}, nil
		}),
	}
}

type request struct {
	key  string
	cost int64
	wait time.Duration
}

// Whatever the candidate is or does, the decisions are those of the authoritative
// alone, and they come at once.
func TestCandidatesDoNotInterfere(t *testing.T) {
	limit := algorithms.Limit{Requests: 5, Window: time.Minute}
	authoritative := shadow.Side{Algorithm: algorithms.SlidingWindowCounter{}, Limit: limit}
	rapid.Check(t, func(rt *rapid.T) {
		trace := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
			return request{
				key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), cost: rapid.Int64Range(0, 6).Draw(rt, "cost"),
				wait: time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(rt, "wait")),
			}
		}), 1, 40).Draw(rt, "trace")
		candidate := rapid.SampledFrom([]string{"healthy", "panics", "panics2", "fails", "garbage", "hangs"}).Draw(rt, "candidate")
		synctest.Test(t, func(t *testing.T) {
			hanging, release := context.WithCancel(context.Background())
			pair, err := shadow.NewPair(shadow.PairConfig{
				Authoritative: authoritative, Candidate: candidates(hanging)[candidate], Logger: slog.New(slog.DiscardHandler),
			})
			if err == nil {
				err = pair.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}

			alone := algorithms.NewMemory(algorithms.MemoryConfig{})
			for i, r := range trace {
				time.Sleep(r.wait)
				start := time.Now()
				got := pair.Allow(context.Background(), r.key, r.cost)
				if took := time.Since(start); took != 0 {
					t.Fatalf("%s: request %d took %s", candidate, i, took)
				}
				want := [1][2]algorithms.Observation{}
				check := algorithms.Check{Key: r.key, Cost: r.cost, Sides: [2]algorithms.Side{{Algorithm: authoritative.Algorithm, Limit: limit}}}
				if err := alone.Evaluate(context.Background(), []algorithms.Check{check}, want[:]); err != nil {
					t.Fatal(err)
				}
				if got.Decision != want[0][0].Decision || got.Fallback {
					t.Fatalf("%s: request %d: %+v, alone %+v", candidate, i, got, want[0][0].Decision)
				}
			}

			release()
			if err := pair.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// A full queue makes comparisons inconclusive, and delays no request.
func TestFullQueueIsInconclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, release := context.WithCancel(context.Background())
		pair, err := shadow.NewPair(shadow.PairConfig{
			Authoritative: shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Hour}},
			Candidate:     candidates(hanging)["hangs"],
		})
		if err == nil {
			err = pair.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		pair.Grow()

		const asked = 3000 // one worker's queue has 256 places: asyncWaiting
		for range asked {
			pair.Allow(context.Background(), "k", 1)
		}

		release()
		if err := pair.Close(context.Background()); err != nil {
			t.Fatal(err)
		}

		sum := counter(t, pair, `outcome="inconclusive"`)
		if least := float64(asked - 256 - 1); sum < least {
			t.Errorf("inconclusive: %g, want at least %g", sum, least)
		}

		if sum += counter(t, pair, `outcome="newly_denied"`) + counter(t, pair, `outcome="agree_deny"`); sum != asked {
			t.Errorf("%g of %d checks have an outcome", sum, asked)
		}
	})
}

// counter returns the value of a comparison metric with a label.
func counter(t *testing.T, pair *shadow.Pair, label string) float64 {
	t.Helper()
	text, err := testutil.CollectAndFormat(pair, expfmt.TypeTextPlain, "shadowlimit_comparisons_total")
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, label) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}

	t.Fatalf("no %s in %s", label, text)
	return 0
}

// The old limiter wrapped in one line, and a candidate of ours beside it.
func TestCustomLimiterInOneLine(t *testing.T) {
	var calls atomic.Int64
	old := func(string) bool { return calls.Add(1) <= 2 }
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Limiter: shadow.AllowFunc(old)},
		Candidate:     shadow.Side{Algorithm: algorithms.TokenBucket{}, Limit: algorithms.Limit{Requests: 1, Window: time.Hour}},
	})
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	pair.Grow()

	for i, want := range []bool{true, true, false} {
		if d := pair.Allow(context.Background(), "alice", 1); d.Allowed != want {
			t.Errorf("request %d: %+v, want %v as the old limiter says", i, d, want)
		}
	}

	if n := counter(t, pair, `outcome="newly_denied"`); n != 1 {
		t.Errorf("%g newly denied, want the second request", n)
	}
	if err := pair.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPairsThatCannotWorkAreRefused(t *testing.T) {
	limit := algorithms.Limit{Requests: 1, Window: time.Hour}
	good := shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit}
	for want, cfg := range map[string]shadow.PairConfig{
		"the candidate: want either a Limiter or an Algorithm": {Authoritative: good},
		"the authoritative: algorithms: gcra:0/0s":             {Authoritative: shadow.Side{Algorithm: algorithms.GCRA{}}, Candidate: good},
		"the same id": {Authoritative: good, Candidate: good},
		"the candidate has a Limiter and an Algorithm": {Authoritative: good, Candidate: shadow.Side{
			Limiter: shadow.AllowFunc(func(string) bool { return true }), Algorithm: algorithms.GCRA{}, Limit: limit}},
		"the candidate: want either": {Authoritative: good, Candidate: shadow.Side{Limiter: shadow.AllowFunc(nil), Limit: limit}},
	} {
		if _, err := shadow.NewPair(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
