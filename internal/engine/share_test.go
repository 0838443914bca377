package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// fleetOfLocals are the instances of a fleet whose store does not answer, and what they have
// allowed of one key.
type fleetOfLocals struct {
	instances []*local
	ev        *evaluation
	allowed   []allowance
}

type allowance struct {
	at   time.Duration
	cost int64
}

func newFleetOfLocals(a algorithms.Algorithm, l algorithms.Limit, n int) *fleetOfLocals {
	f := &fleetOfLocals{ev: &evaluation{Policy: limiterOf(a), limits: [2]algorithms.Limit{l}}}
	for range n {
		f.instances = append(f.instances, newLocal())
	}
	return f
}

func (f *fleetOfLocals) ask(instance int, cost int64) algorithms.Decision {
	c := &algorithms.Check{Policy: "p", Key: "k", Cost: cost}
	return f.instances[instance].feed(c, f.ev, int64(len(f.instances))).decision
}

// within returns the most that was allowed within a time.
func (f *fleetOfLocals) within(span time.Duration) (most int64) {
	for i := range f.allowed {
		sum := int64(0)
		for _, a := range f.allowed[i:] {
			if a.at < f.allowed[i].at+span {
				sum += a.cost
			}
		}
		most = max(most, sum)
	}
	return most
}

// Without a store the instances of a fleet together allow the limit, with each share rounded
// up to a whole unit or, where a cost is above the share, to one such cost. That holds in the
// long run, too: a cost above the share is a debt.
func TestFleetWithoutAStoreKeepsTheLimit(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		a := rapid.SampledFrom(algorithms.All).Draw(t, "algorithm")
		hasBurst := algorithms.TraitsOf(a).Burst != algorithms.BurstRefused
		whole := algorithms.Limit{Requests: rapid.Int64Range(1, 100).Draw(t, "requests"), Window: 10 * time.Second}
		if hasBurst {
			whole.Burst = rapid.Int64Range(1, 100).Draw(t, "burst")
		}
		n := rapid.IntRange(1, 12).Draw(t, "instances")
		largest := rapid.Int64Range(1, whole.Capacity()).Draw(t, "largest cost")
		seed := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 400, 400).Draw(t, "traffic")

		// Failures go to the property outside of the bubble, which shrinks them.
		problem := ""
		synctest.Test(test, func(*testing.T) {
			f := newFleetOfLocals(a, whole, n)
			begin := time.Now()
			for _, r := range seed {
				time.Sleep(time.Duration(r%512) * time.Millisecond)
				cost := 1 + int64(r/512)%largest
				d := f.ask(r/8192%n, cost)
				if !d.Allowed && d.RetryAfter == algorithms.Never {
					problem = fmt.Sprintf("cost %d of %s is never allowed", cost, whole)
				}
				if d.Allowed {
					f.allowed = append(f.allowed, allowance{time.Since(begin), cost})
				}
			}

			// Any time of one window touches two windows that are aligned or anchored; with a
			// burst it allows that and the share of a window.
			share, most := (whole.Requests+int64(n)-1)/int64(n), int64(0)
			once := max(largest, share)
			if hasBurst {
				once = max(largest, (whole.Burst+int64(n)-1)/int64(n))
			}
			for windows := int64(1); windows <= 8; windows *= 2 {
				most = int64(n) * (once + windows*share)
				if got := f.within(time.Duration(windows) * whole.Window); got > most {
					problem = fmt.Sprintf("%s %s, %d instances, costs up to %d: %d allowed within %d windows, want at most %d",
						a.Name(), whole, n, largest, got, windows, most)
				}
			}
		})
		if problem != "" {
			t.Fatal(problem)
		}
	})
}

// A cost above the share is allowed where nothing is spent, and again when the share has paid
// for it: not before, and not later.
func TestCostAboveTheShareIsADebt(t *testing.T) {
	for _, a := range algorithms.All {
		synctest.Test(t, func(t *testing.T) {
			whole := algorithms.Limit{Requests: 100, Window: time.Minute}
			if algorithms.TraitsOf(a).Burst != algorithms.BurstRefused {
				whole.Burst = 100
			}
			f := newFleetOfLocals(a, whole, 20) // a share of 5 a minute
			if d := f.ask(0, 101); d.Allowed || d.RetryAfter != algorithms.Never {
				t.Errorf("%s: a cost above the limit: %+v", a.Name(), d)
			}

			if d := f.ask(0, 10); !d.Allowed {
				t.Fatalf("%s: %+v, want a cost of 10 to be allowed", a.Name(), d)
			}
			if d := f.ask(0, 0); !d.Allowed || d.Remaining != 0 || d.RetryAfter != 0 {
				t.Errorf("%s: a peek: %+v", a.Name(), d)
			}

			d := f.ask(0, 10)
			if d.Allowed || d.RetryAfter != 2*time.Minute {
				t.Errorf("%s: %+v, want a wait of two minutes", a.Name(), d)
			}
			time.Sleep(d.RetryAfter - time.Microsecond)
			if d := f.ask(0, 10); d.Allowed {
				t.Errorf("%s: allowed before the debt was paid", a.Name())
			}
			time.Sleep(time.Microsecond)
			if d := f.ask(0, 10); !d.Allowed {
				t.Errorf("%s: %+v after the debt was paid", a.Name(), d)
			}

			// Something spent keeps a large cost off until it is forgotten.
			f.ask(1, 1)
			d = f.ask(1, 10)
			if d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 2*time.Minute {
				t.Errorf("%s: %+v after a cost of 1", a.Name(), d)
			}
			time.Sleep(d.RetryAfter)
			if d := f.ask(1, 10); !d.Allowed {
				t.Errorf("%s: %+v after what was spent is forgotten", a.Name(), d)
			}
		})
	}
}

// Debts are bounded, and those that are over are dropped.
func TestDebtsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebts()
		s := &d.shards[0]
		for i := range 2 * mostDebts {
			d.add(s, debtor{key: string(rune(i))}, 0, time.Hour)
		}
		if len(s.until) > mostDebts || d.none() {
			t.Errorf("%d debts, none: %t", len(s.until), d.none())
		}

		d.add(s, debtor{key: "late"}, 2*time.Hour, 3*time.Hour)
		if d.left(s, debtor{key: "late"}, 3*time.Hour); len(s.until) != 0 {
			t.Errorf("%d debts are left", len(s.until))
		}
	})
}

// A key that never returns keeps its debt, and must not keep requests of others from going on
// without a lock.
func TestDebtsThatAreOverCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebts()
		d.add(&d.shards[0], debtor{key: "gone"}, 0, time.Hour)
		d.add(&d.shards[1], debtor{key: "gone sooner"}, 0, time.Minute)
		if time.Sleep(time.Hour - 1); d.none() {
			t.Error("the longer debt is forgotten")
		}
		if time.Sleep(time.Nanosecond); !d.none() {
			t.Error("debts that are over count")
		}
	})
}
