package shadow

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// slowAlgorithm is a user's: GCRA, after a pause.
type slowAlgorithm struct {
	gcra  algorithms.GCRA
	pause time.Duration
}

func (slowAlgorithm) Name() string                        { return "slow" }
func (a slowAlgorithm) Validate(l algorithms.Limit) error { return a.gcra.Validate(l) }

func (a slowAlgorithm) Step(s algorithms.State, l *algorithms.Limit, cost, at int64) (algorithms.State, algorithms.Decision, error) {
	time.Sleep(a.pause)
	return a.gcra.Step(s, l, cost, at)
}

// A candidate with an algorithm of the user's takes its time after the answer, and compares
// as it did beside it. Once it is enforced, a request waits for it and for nothing else.
func TestSlowAlgorithmOfTheUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 200 * time.Millisecond
		limit := algorithms.Limit{Requests: 3, Window: time.Hour}
		p, err := NewPair(PairConfig{
			Authoritative: Side{Algorithm: algorithms.GCRA{}, Limit: limit},
			Candidate:     Side{Algorithm: slowAlgorithm{pause: pause}, Limit: limit},
			Logger:        slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())

		start, allowed := time.Now(), 0
		for range 5 {
			if p.Allow(t.Context(), "key", 1).Allowed {
				allowed++
			}
		}
		if took := time.Since(start); took != 0 || allowed != 3 {
			t.Errorf("%d of 5 are allowed after %v: want 3, and no wait for the candidate", allowed, took)
		}

		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		total := p.policy.Recorder.Totals().Outcomes
		if total.Comparisons() != 5 || total[evidence.AgreeAllow] != 3 || total[evidence.AgreeDeny] != 2 {
			t.Errorf("%+v: want 3 requests that both sides allow and 2 that both deny", total)
		}

		step := stages.Step{Stage: stages.Promoted}
		if _, err := stages.Advance(t.Context(), inside.Stages(p), "default", step, stages.Order{Actor: "t", Reason: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		d := p.Allow(t.Context(), "key", 1)
		if took := time.Since(start); took != pause || d.Allowed || d.Fallback || d.Enforced != algorithms.Candidate {
			t.Errorf("enforced: %+v after %v", d, took)
		}
	})
}
