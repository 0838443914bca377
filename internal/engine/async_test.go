package engine

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
)

// apart is a policy whose twin sides lie in two stores, and whose checks the test orders
// as it wants.
type apart struct {
	*Policy
	outcomes []evidence.Outcome // written by the workers
	limit    algorithms.Limit
}

func newApart(t *testing.T) *apart {
	discard := slog.New(slog.DiscardHandler)
	twin := algorithms.Side{Algorithm: algorithms.FixedWindow{}}
	stores := [2]*Store{
		NewRemoteStore("first", algorithms.NewMemory(algorithms.MemoryConfig{}), never, discard),
		NewRemoteStore("second", algorithms.NewMemory(algorithms.MemoryConfig{}), never, discard),
	}

	a := &apart{limit: algorithms.Limit{Requests: 100, Window: time.Hour}}
	a.Policy = NewPolicy(stages.Spec{Policy: "p", Fingerprint: "e"},
		[2]Side{AlgorithmSide(twin, stores[0]), AlgorithmSide(twin, stores[1])},
		PolicyOptions{Log: discard, Observer: func(c *Comparison) { a.outcomes = append(a.outcomes, c.Outcome) }})
	t.Cleanup(func() { a.progress.async.close(context.Background()) })
	return a
}

// check asks the enforced side, and returns what the queue gets.
func (a *apart) check() *asyncCheck {
	c := algorithms.Check{Policy: "p", Key: "k", Cost: 1}
	for role := range c.Sides {
		c.Sides[role] = a.Sides[role].algorithm
		c.Sides[role].Limit = a.limit
	}
	var ev evaluation
	ev.reset(a.Policy, &c, Declared{})
	ev.assign(&c)

	var into [1]Observations
	ev.primaryStore.evaluate(context.Background(), []algorithms.Check{c}, into[:])
	return &asyncCheck{check: c, evaluation: ev, at: time.Now(), seen: into[0]}
}

// A check is made at the instant at which the enforced side was asked, however late that is: the
// end of a window in between makes no difference.
func TestDeferredChecksCarryTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.limit = algorithms.Limit{Requests: 1, Window: time.Minute}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(2*time.Minute - time.Second)))
		before := []*asyncCheck{a.check(), a.check()} // one allowed, one denied
		time.Sleep(30 * time.Second)
		after := a.check()
		for _, c := range append(before, after) {
			a.progress.async.add(c)
		}
		synctest.Wait()

		want := []evidence.Outcome{evidence.AgreeAllow, evidence.AgreeDeny, evidence.AgreeAllow}
		if !slices.Equal(a.outcomes, want) {
			t.Errorf("outcomes %v, want %v", a.outcomes, want)
		}
	})
}

// A full queue says so, and keeps no request waiting.
func TestFullQueueTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		released := make(chan struct{})
		a.Sides[algorithms.Candidate] = CustomSide(callerFunc(func(
			context.Context, string, algorithms.Limit, int64,
		) (algorithms.Decision, error) {
			<-released
			return algorithms.Decision{Allowed: true}, nil
		}))
		a.Sides[algorithms.Candidate].guardCustom("p", algorithms.Candidate, slog.New(slog.DiscardHandler))
		added := 0
		for range asyncWaiting + asyncBatch + 1 {
			if a.progress.async.add(a.check()) {
				added++
			}
			synctest.Wait()
		}
		if added != asyncWaiting+1 { // one is with the limiter
			t.Errorf("the queue took %d checks, want %d", added, asyncWaiting+1)
		}
		close(released)
	})
}

// A limiter that does not return when the process ends costs no evaluation: the checks behind its call are counted as skipped,
// and the one that it was asked for when it returns.
func TestCloseCountsWhatIsBehindACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const checks = 3 * asyncBatch
		released := make(chan struct{})
		hangs := callerFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			<-released
			return algorithms.Decision{Allowed: true}, nil
		})

		a := newApart(t)
		a.Sides[algorithms.Candidate] = CustomSide(hangs)
		a.Sides[algorithms.Candidate].guardCustom("p", algorithms.Candidate, slog.New(slog.DiscardHandler))
		for range checks {
			a.progress.async.add(a.check())
		}
		if err := a.progress.async.close(t.Context()); err == nil || len(a.outcomes) != checks-1 {
			t.Errorf("%v, %d outcomes, want %d of checks that were not made", err, len(a.outcomes), checks-1)
		}

		close(released)
		synctest.Wait()
		counted := map[evidence.Outcome]int{}
		for _, o := range a.outcomes {
			counted[o]++
		}
		if counted[evidence.Inconclusive] != checks-1 || counted[evidence.AgreeAllow] != 1 {
			t.Errorf("counted %v, want %d inconclusive and one that agrees", counted, checks-1)
		}
	})
}

// A log that was given up for memory is no failure of the limiter, and no difference.
func TestLogThatWasGivenUpIsInconclusive(t *testing.T) {
	o := markStoreFailed(Observations{{Status: algorithms.Judged}, algorithms.Failure(lua.ErrLogShed)})
	if got := evidence.Compare(&o); got != evidence.Inconclusive || o[1].Reason != algorithms.StoreFailed {
		t.Errorf("%v of %+v", got, o[1])
	}
}
