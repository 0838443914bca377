package limitertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Subject is one algorithm in one pair.
type Subject struct {
	// Algorithm must have a rule in the Oracle: Run panics for one that has none.
	Algorithm algorithms.Algorithm
	// New returns the pair to test. It may be the same pair each time: the suite uses
	// keys that no other test has.
	New func(testing.TB) algorithms.Pair
}

// Run checks every law on random traces, each law a subtest that prints its
// sentence when it is broken. The flags of package rapid set the number of trials and
// repeat a failed one.
func Run(t *testing.T, s Subject) {
	// Each law has the pair to itself, for a law that fails must not spoil the trials of another.
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			pair := s.New(t)

			rapid.Check(t, func(rt *rapid.T) {
				defer func() {
					if rt.Failed() {
						rt.Logf("broken law of %s: %s", s.Algorithm.Name(), l.sentence)
					}
				}()
				l.check(&trial{T: rt, law: l, subject: s, pair: pair, policy: "laws"})
			})
		})
	}
}

// trial is one random case of one law. A law judges a history as often as it likes: each
// judgement is of a fresh key, so histories do not disturb each other.
type trial struct {
	*rapid.T
	law     law
	subject Subject
	pair    algorithms.Pair
	policy  string
	limit   algorithms.Limit
}

// event is a check of a trial: an instant in microseconds and a cost.
type event struct{ at, cost int64 }

// judge charges a fresh key with the events, in their order.
func (t *trial) judge(events ...event) []algorithms.Decision {
	return t.judgeUnder(t.limit, events...)
}

// judgeUnder is judge under another limit than the trial's.
func (t *trial) judgeUnder(l algorithms.Limit, events ...event) []algorithms.Decision {
	return t.judgeKey(freshName(), l, events...)
}

// freshName returns a name that no other trial has: not drawn, since a trial that is
// repeated must not find the records of the first time.
func freshName() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// judgeKey charges that key of the trial's policy in one Evaluate, and fails the trial
// unless every event has a decision. A history in one call also tests that a pair judges
// the checks of one key in their order.
func (t *trial) judgeKey(key string, l algorithms.Limit, events ...event) []algorithms.Decision {
	checks := make([]algorithms.Check, len(events))
	for i, e := range events {
		checks[i] = algorithms.Check{
			Policy: t.policy, Key: key, Cost: e.cost, At: time.UnixMicro(e.at),
			Sides: [2]algorithms.Side{{Algorithm: t.subject.Algorithm, Limit: l}},
		}
	}

	into := make([][2]algorithms.Observation, len(checks))
	if err := t.pair.Evaluate(context.Background(), checks, into); err != nil {
		t.Fatalf("evaluate: %v", err)
	}

	// A trial has one side. A pair that invents an answer for the absent one would be compared
	// with it in production.
	decisions := make([]algorithms.Decision, len(into))
	for i := range into {
		for r := range into[i] {
			if err := into[i][r].Check(); err != nil {
				t.Fatalf("event %d, %+v under %s, %s side: %v", i, events[i], l, algorithms.Role(r), err)
			}
		}
		if into[i][0].Status != algorithms.Judged {
			t.Fatalf("event %d, %+v under %s: %v", i, events[i], l, into[i][0].Err)
		}
		if into[i][1].Status != algorithms.NotAsked {
			t.Fatalf("event %d, %+v under %s: the absent side is %s", i, events[i], l, into[i][1].Status)
		}
		decisions[i] = into[i][0].Decision
	}

	return decisions
}

func last(d []algorithms.Decision) algorithms.Decision { return d[len(d)-1] }

// base is the first instant of a trial's events, in microseconds. It is no multiple of any
// usual window, so that aligned and anchored windows differ.
const base = 1_700_000_000_123_456

// drawLimit draws a limit that the algorithm takes.
func (t *trial) drawLimit() {
	// A subject of the user's may have no Traits: its Validate says whether it takes a burst.
	takesBurst := t.subject.Algorithm.Validate(algorithms.Limit{Requests: 1, Window: time.Second, Burst: 1}) == nil
	valid := func(l algorithms.Limit) bool { return t.subject.Algorithm.Validate(l) == nil }

	// Small numbers make histories that reach the limit, and 9973 is prime, so a
	// token takes no whole number of microseconds.
	t.limit = rapid.Custom(func(rt *rapid.T) algorithms.Limit {
		l := algorithms.Limit{
			Requests: rapid.OneOf(rapid.Int64Range(0, 9), rapid.SampledFrom([]int64{60, 100, 9973})).Draw(rt, "requests"),
			Window: time.Microsecond * time.Duration(rapid.OneOf(rapid.Int64Range(1, 100),
				rapid.SampledFrom([]int64{250_000, 1e6, 60e6, 3600e6})).Draw(rt, "window_us")),
		}
		if takesBurst {
			l.Burst = rapid.Int64Range(1, 12).Draw(rt, "burst")
		}
		return l
	}).Filter(valid).Draw(t.T, "limit")
}

// drawEvents draws 1 to 40 events whose instants never go back and crowd around
// the boundaries of the limit.
func (t *trial) drawEvents() []event {
	t.drawLimit()
	w := t.limit.Window.Microseconds()

	// Mistakes show where a window ends or a token is there, so most pauses end there or
	// one microsecond to either side.
	each := w / max(1, t.limit.Requests)
	pause := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*w),
		rapid.SampledFrom([]int64{w - 1, w, w + 1, each, each + 1, w - base%w}))
	cost := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, t.limit.Capacity()+1))

	// A cost of one more than the capacity never passes, and one of 0 is a peek.
	now := int64(base)
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) event {
		now += max(0, pause.Draw(rt, "pause"))
		return event{now, cost.Draw(rt, "cost")}
	}), 1, 40).Draw(t.T, "events")
}

// drawWild draws events whose clock is set back now and then.
func (t *trial) drawWild() []event {
	// Steps around one window are the ones at which a key is moved or not. Steps of a few
	// microseconds are those of two servers that take turns.
	events := t.drawEvents()
	w := t.limit.Window.Microseconds()
	by := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 3*w), rapid.SampledFrom([]int64{w - 1, w, w + 1, 10 * w}))

	behind := int64(0)
	for i := range events {
		if rapid.IntRange(0, 4).Draw(t.T, "step") == 0 {
			behind += by.Draw(t.T, "by")
		}
		events[i].at -= behind
	}
	return events
}

// drawLists draws requests at the instants of events.
func (t *trial) drawLists(draw func() []event) *lists {
	p := &lists{trial: t}
	for range rapid.IntRange(2, 3).Draw(t.T, "policies") {
		t.drawLimit()
		p.limits = append(p.limits, t.limit)
	}

	for _, e := range draw() {
		r := request{at: e.at, costs: []int64{e.cost}}
		for range p.limits[1:] {
			r.costs = append(r.costs, rapid.Int64Range(-1, 3).Draw(t.T, "cost"))
		}
		p.requests = append(p.requests, r)
	}
	p.limits[0] = t.limit // of the events
	return p
}

// newTwins returns two sides of one algorithm and limit, with a key of their own.
func (t *trial) newTwins() *twins {
	side := func(id string) algorithms.Side {
		return algorithms.Side{ID: id, Algorithm: t.subject.Algorithm, Limit: t.limit}
	}
	return &twins{trial: t, key: freshName(), sides: [2]algorithms.Side{side("a"), side("b")}}
}

// holdsBound fails the trial if an interval admits more than the bound of the trial's algorithm and limit.
func (t *trial) holdsBound(events []event, decisions []algorithms.Decision) {
	var admitted []event
	for i, d := range decisions {
		if d.Allowed && events[i].cost > 0 {
			admitted = append(admitted, events[i])
		}
	}

	// Every interval from one admitted check to another: a longer one adds only time.
	definition := ruleOf(t.subject.Algorithm.Name())
	for i := range admitted {
		sum := int64(0)
		for j := i; j < len(admitted); j++ {
			sum += admitted[j].cost
			span := admitted[j].at - admitted[i].at
			if most := definition.most(t.limit, span); sum > most {
				t.Fatalf("%s admits %d units within %d us from %d, want at most %d", t.limit, sum, span, admitted[i].at, most)
			}
		}
	}
}

// sameWithout checks that the events that drop chooses have no influence: without them,
// the decisions of all others stay the same.
func (t *trial) sameWithout(drop func(event, algorithms.Decision) bool) {
	events := t.drawEvents()

	var kept []event
	var want []algorithms.Decision
	for i, d := range t.judge(events...) {
		if !drop(events[i], d) {
			kept = append(kept, events[i])
			want = append(want, d)
		}
	}

	// Where all events are dropped, there is no decision to compare.
	if len(kept) == 0 {
		return
	}
	t.equal(want, t.judge(kept...))
}

// equal fails the trial at the first decision that differs.
func (t *trial) equal(want, got []algorithms.Decision) {
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("event %d under %s\n  want %+v\n  got  %+v", i, t.limit, want[i], got[i])
		}
	}
}
