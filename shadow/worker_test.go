package shadow

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// apart is a policy whose twin sides lie in two stores, and whose charges the test orders
// as it wants.
type apart struct {
	*migration
	outcomes []divergence.Outcome // written by the workers
	limit    algorithms.Limit
}

func newApart(t *testing.T) *apart {
	discard := slog.New(slog.DiscardHandler)
	twin := algorithms.Side{Algorithm: algorithms.FixedWindow{}}
	stores := [2]*store{
		newRemoteStore("first", algorithms.NewMemory(algorithms.MemoryConfig{}), discard),
		newRemoteStore("second", algorithms.NewMemory(algorithms.MemoryConfig{}), discard),
	}

	a := &apart{limit: algorithms.Limit{Requests: 100, Window: time.Hour}}
	a.migration = newMigration(promotion.Spec{Policy: "p", Epoch: "e"},
		[2]side{algorithmSide(twin, stores[0]), algorithmSide(twin, stores[1])},
		options{log: discard, observer: func(c Comparison) { a.outcomes = append(a.outcomes, c.Outcome) }})
	t.Cleanup(func() { a.progress.followers.close(context.Background()) })
	return a
}

// lead charges the leading side, and returns the job of the side that follows.
func (a *apart) lead() *followed {
	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1}
	for role := range c.Sides {
		c.Sides[role] = a.sides[role].algorithm
		c.Sides[role].Limit = a.limit
	}
	var ev evaluation
	ev.reset(a.migration, divergence.Hash("test", c.Policy, c.Key), &c, declaration{})
	ev.assign(&c)

	job := &followed{charge: c, evaluation: ev, at: time.Now(), answered: time.Now()}
	var into [1]observations
	ev.primaryStore.evaluate(context.Background(), []algorithms.Charge{c}, into[:])
	job.into = into[0]
	job.charge.Lead = leadOf(&c, &job.into[algorithms.Authoritative])
	return job
}

// Two charges overtake each other on the way to the side that follows: the later one waits.
func TestFollowerWaitsForItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.progress.followers.follow(a.lead()) // the key is known to both sides
		synctest.Wait()

		first, second := a.lead(), a.lead()
		a.progress.followers.follow(second)
		time.Sleep(patience / 2)
		if len(a.outcomes) != 1 || !a.progress.followers.busy() {
			t.Fatalf("judged ahead of its predecessor: %v", a.outcomes)
		}

		a.progress.followers.follow(first)
		synctest.Wait()
		time.Sleep(earlyPause)
		synctest.Wait()
		agree := divergence.AgreeAllow
		if !slices.Equal(a.outcomes, []divergence.Outcome{agree, agree, agree}) || a.progress.followers.busy() {
			t.Errorf("outcomes %v, want three that agree", a.outcomes)
		}
	})
}

// A predecessor that was dropped never comes. The charges behind it are judged after 100 ms,
// and blind until its window is over.
func TestPredecessorThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.progress.followers.follow(a.lead())
		a.lead() // dropped
		began := time.Now()
		a.progress.followers.follow(a.lead())
		for a.progress.followers.busy() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if waited := time.Since(began); waited < patience || waited > patience+2*earlyPause {
			t.Errorf("judged after %s", waited)
		}

		a.progress.followers.follow(a.lead())
		synctest.Wait()
		blind := divergence.Blind
		if !slices.Equal(a.outcomes, []divergence.Outcome{divergence.AgreeAllow, blind, blind}) {
			t.Errorf("outcomes %v, want the missed charge to make the key blind", a.outcomes)
		}

		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a.progress.followers.follow(a.lead())
		synctest.Wait()
		if last := a.outcomes[len(a.outcomes)-1]; last != divergence.AgreeAllow {
			t.Errorf("in the next window: %s", last)
		}
	})
}

// After a store has lost its data no predecessor comes. To wait for each key would fill the
// queue.
func TestWorkerLearnsThatWaitingIsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.progress.followers.follow(a.lead())
		for n := range mostVain + 1 {
			a.lead() // dropped
			began := time.Now()
			a.progress.followers.follow(a.lead())
			for a.progress.followers.busy() {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if waited := time.Since(began) >= patience; waited != (n < mostVain) {
				t.Errorf("charge %d waited: %t", n, waited)
			}
		}
	})
}

// Close judges what waits, and ends.
func TestCloseDoesNotWaitForPredecessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.progress.followers.follow(a.lead())
		a.lead() // dropped
		a.progress.followers.follow(a.lead())
		synctest.Wait()
		if err := a.progress.followers.close(t.Context()); err != nil || len(a.outcomes) != 2 {
			t.Errorf("%v, outcomes %v, want both charges judged", err, a.outcomes)
		}
	})
}

// The charges that wait are bounded, also where the queue brings more each time.
func TestEarlyChargesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApart(t)
		a.lead() // dropped
		w, most := worker{followers: a.progress.followers}, 0
		for range 2 * mostEarly / followBatch {
			batch := w.takeEarly(nil)
			for range followBatch {
				batch = append(batch, *a.lead())
			}
			w.judge(batch)
			most = max(most, len(w.early))
		}

		if most != mostEarly {
			t.Errorf("up to %d charges wait, want %d", most, mostEarly)
		}
	})
}

// A limiter that does not return when the process ends costs no evaluation: the charges behind its call are counted as skipped,
// and the one that it was asked for when it returns.
func TestCloseCountsWhatIsBehindACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const charges = 3 * followBatch
		released := make(chan struct{})
		hangs := LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			<-released
			return algorithms.Decision{Allowed: true}, nil
		})

		a := newApart(t)
		a.sides[algorithms.Candidate] = foreignSide(hangs)
		a.sides[algorithms.Candidate].guardForeign("p", algorithms.Candidate, slog.New(slog.DiscardHandler))
		for range charges {
			a.progress.followers.follow(a.lead())
		}
		if err := a.progress.followers.close(t.Context()); err == nil || len(a.outcomes) != charges-1 {
			t.Errorf("%v, %d outcomes, want %d of charges that were not judged", err, len(a.outcomes), charges-1)
		}

		// It has had no charge that came after this one, so this answer is blind.
		close(released)
		synctest.Wait()
		counted := map[divergence.Outcome]int{}
		for _, o := range a.outcomes {
			counted[o]++
		}
		wrong := counted[divergence.Inconclusive] != charges-1 || counted[divergence.Blind] != 1
		if len(a.outcomes) != charges || wrong || a.progress.followers.busy() {
			t.Errorf("counted %v, want %d inconclusive and a blind one", counted, charges-1)
		}
	})
}
