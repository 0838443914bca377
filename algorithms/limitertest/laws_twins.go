package limitertest

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// twins are two sides of one algorithm and one limit in one record.
type twins struct {
	*trial
	key   string
	sides [2]algorithms.Side
}

// evaluate charges the sides that the check has, both if it has none.
func (w *twins) evaluate(e event, c algorithms.Check) [2]algorithms.Observation {
	c.Policy, c.Key, c.Cost, c.At = w.policy, w.key, e.cost, time.UnixMicro(e.at)
	if !c.Sides[0].Present() && !c.Sides[1].Present() {
		c.Sides = w.sides
	}

	var into [1][2]algorithms.Observation
	if err := w.pair.Evaluate(context.Background(), []algorithms.Check{c}, into[:]); err != nil {
		w.Fatalf("evaluate: %v", err)
	}
	for r := range into[0] {
		if o := &into[0][r]; o.Status == algorithms.Failed {
			w.Fatalf("%+v: %v", c, o.Err)
		}
	}
	return into[0]
}

// together charges both sides at once, and fails the trial where their answers differ.
func (w *twins) together(e event, enforced algorithms.Role) [2]algorithms.Observation {
	o := w.evaluate(e, algorithms.Check{Enforced: enforced})
	if o[0].Decision != o[1].Decision {
		w.Fatalf("cost %d at %d under %s\n  one side   %+v\n  other side %+v", e.cost, e.at, w.limit, o[0].Decision, o[1].Decision)
	}
	return o
}

// alone charges one side, and returns its answer.
func (w *twins) alone(e event, r algorithms.Role) algorithms.Decision {
	c := algorithms.Check{Enforced: r}
	c.Sides[r] = w.sides[r]
	return w.evaluate(e, c)[r].Decision
}

// settle settles a receipt, and returns what became of it. It reports false for a pair whose charges stand.
func (w *twins) settle(r *algorithms.Receipt, cost, at int64) (into [2]algorithms.Settled, ok bool) {
	settler, ok := w.pair.(algorithms.Settler)
	if !ok {
		return into, false
	}
	var list [1][2]algorithms.Settled
	err := settler.Settle(context.Background(), []algorithms.Settlement{{Receipt: r, Cost: cost, At: time.UnixMicro(at)}}, list[:])
	if err != nil || list[0][0].Err != nil || list[0][1].Err != nil {
		w.Fatalf("settle: %v, %+v", err, list[0])
	}
	return list[0], true
}

// twinsAgree finds a side whose answer depends on its role or on its place in the record, whatever the clock does.
func twinsAgree(t *trial) {
	events := t.drawWild()
	w := t.newTwins()
	for _, e := range events {
		w.together(e, algorithms.Role(rapid.IntRange(0, 1).Draw(t.T, "enforced")))
	}
}

// twinBeginsAsCopy finds a side that begins in another phase than the one beside which it begins: it would then differ
// from it for as long as the key is at its limit.
func twinBeginsAsCopy(t *trial) {
	events := t.drawWild()
	w := t.newTwins()
	begins := rapid.IntRange(0, len(events)).Draw(t.T, "begins")
	for i, e := range events {
		if i < begins {
			w.alone(e, algorithms.Authoritative)
		} else {
			w.together(e, algorithms.Authoritative)
		}
	}

	// A side that is enforced begins afresh: nothing that it owes comes from the other one.
	alone := t.newTwins()
	for _, e := range events {
		alone.alone(e, algorithms.Authoritative)
	}
	at := events[len(events)-1].at
	if d := alone.evaluate(event{at, 0}, algorithms.Check{Enforced: algorithms.Candidate})[algorithms.Candidate].Decision; d.ResetAfter != 0 {
		t.Fatalf("a side that begins enforced has %+v", d)
	}
}

// copyIsApart finds a copy that shares memory with what it was copied from.
func copyIsApart(t *trial) {
	events := t.drawEvents()
	w, single := t.newTwins(), t.newTwins()
	for i, e := range events {
		r := algorithms.Authoritative
		want := single.alone(e, r)
		switch {
		case i == 0:
			w.alone(e, r)
		case i == 1:
			w.evaluate(e, algorithms.Check{})
		default:
			// The copy is charged before the side that it was copied from.
			w.alone(event{e.at, 1}, r.Other())
			if got := w.alone(e, r); got != want {
				t.Fatalf("event %d of %+v under %s\n  beside a copy %+v\n  alone         %+v", i, events, t.limit, got, want)
			}
		}
	}
}

// deferredStands finds a deferred check that is taken for a clock that was set back.
func deferredStands(t *trial) {
	events := t.drawEvents()
	late, still := t.newTwins(), t.newTwins()
	spent := int64(0) // the last instant at which a check counted
	for i, e := range events {
		deferred := i > 0 && rapid.Bool().Draw(t.T, "deferred")
		c := algorithms.Check{Sides: [2]algorithms.Side{late.sides[0]}, Deferred: deferred}
		arrives := e
		if deferred {
			arrives.at -= rapid.Int64Range(0, 3*t.limit.Window.Microseconds()).Draw(t.T, "by")
			e.at = max(arrives.at, spent)
		}

		want := still.alone(e, algorithms.Authoritative)
		got := late.evaluate(arrives, c)[0]
		if got.Decision != want || got.At.UnixMicro() != e.at {
			t.Fatalf("event %d of %+v under %s, deferred from %d\n  judged %+v at %d\n  want   %+v at %d",
				i, events, t.limit, arrives.at, got.Decision, got.At.UnixMicro(), want, e.at)
		}
		if counts(e, want) {
			spent = max(spent, e.at)
		}
	}
}
