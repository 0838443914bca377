package limitertest

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The laws of this file are those of clocks that are set back.

// backwardsMintsNothing compares two histories of the same costs: back, whose instants
// jump back at times, by a window at most, and still, in which the clock stands at the last admitted check
// instead. It finds limiters that give a client new units when a clock is set back: a key is
// judged at the later of the check's instant and its last admitted one.
func backwardsMintsNothing(t *trial) {
	still := t.drawEvents()
	back := append([]event(nil), still...)
	d := t.judge(still...)

	// The jumps are drawn one after the other, since each changes which later checks are
	// admitted, and with that where the clock has to stand.
	spent := int64(base) // the last instant at which a check counted
	for i := range still {
		if i > 0 && rapid.Bool().Draw(t.T, "back") {
			back[i].at = max(base, spent-rapid.Int64Range(0, t.limit.Window.Microseconds()).Draw(t.T, "by"))
			still[i].at = max(back[i].at, spent)
			d = t.judge(still...)
		}
		if counts(still[i], d[i]) {
			spent = max(spent, still[i].at)
		}
	}

	// Waits differ by the jump, since they count from the check's own instant.
	for i, b := range t.judge(back...) {
		if b.Allowed != d[i].Allowed || b.Remaining != d[i].Remaining {
			t.Fatalf("event %d at %d instead of %d\n  stood still %+v\n  went back   %+v", i, back[i].at, still[i].at, d[i], b)
		}
	}
}

// counts reports whether a check with that decision has moved the key's instant.
func counts(e event, d algorithms.Decision) bool { return e.cost > 0 && d.Allowed }

// stepBackKeeps finds a step that forgets spent units, or counts it twice.
func stepBackKeeps(t *trial) {
	events := t.drawEvents()
	spent := int64(-1)
	for i, d := range t.judge(events...) {
		if counts(events[i], d) {
			spent = int64(i)
		}
	}
	if spent < 0 {
		return
	}

	// Only a check that counts moves a key's instant, so the history ends with one.
	events = events[:spent+1]
	before := last(t.judge(events...))
	to := events[spent].at - t.limit.Window.Microseconds() - rapid.Int64Range(1, 1e9).Draw(t.T, "by")
	for _, cost := range []int64{0, before.Remaining + 1} {
		after := last(t.judge(append(events[:spent+1:spent+1], event{to, cost}, event{to, 0})...))
		if after.Remaining != before.Remaining {
			t.Fatalf("%d remain before the clock goes back from %d to %d, %d after a cost of %d there",
				before.Remaining, events[spent].at, to, after.Remaining, cost)
		}
	}
}

// clockLocksNotOut finds a key that is denied until a clock has caught up, and a denial whose wait
// begins again at every denial.
func clockLocksNotOut(t *trial) {
	events := t.drawWild()
	final := events[len(events)-1]
	d := last(t.judge(events...))
	if d.Allowed || d.RetryAfter == algorithms.Never {
		return
	}

	// A key that lies ahead is moved to the check's instant, and may then be in use for as long
	// as any key.
	usual := algorithms.Forgotten(algorithms.TraitsOf(t.subject.Algorithm).Shape, t.limit, 0)
	if most := t.limit.Window + time.Duration(usual)*time.Microsecond; d.RetryAfter > most {
		t.Fatalf("event %d of %+v waits %s, want at most %s", len(events)-1, events, d.RetryAfter, most)
	}

	// The client asks once more in the meantime, which must not make it wait longer.
	r := d.RetryAfter.Microseconds()
	early := final.at + rapid.Int64Range(0, r).Draw(t.T, "early")
	events = append(events, event{early, t.limit.Capacity() + 1}, event{final.at + r, final.cost})
	if again := last(t.judge(events...)); !again.Allowed {
		t.Fatalf("denied again after RetryAfter %s: %+v", d.RetryAfter, again)
	}
}

// clockMintsNoMore finds units that a clock makes by going to and fro. Instants are those at which
// the checks were judged: the latest so far, until the clock goes back by more than a window.
func clockMintsNoMore(t *trial) {
	events := t.drawWild()
	definition := ruleOf(t.subject.Algorithm.Name())

	var run []event
	stands := int64(math.MinInt64) // the key's instant
	for i, d := range t.judge(events...) {
		e := events[i]
		// A step of more than a window begins another count: that is its stated price. It moves
		// the key, even where nothing is admitted.
		if stands > e.at+t.limit.Window.Microseconds() {
			run, stands = nil, e.at
		}
		if !counts(e, d) {
			continue
		}
		e.at = max(e.at, stands)
		stands = e.at

		// Each interval that ends with this check is held against the algorithm's bound.
		run = append(run, e)
		sum := int64(0)
		for j := len(run) - 1; j >= 0; j-- {
			sum += run[j].cost
			if most := definition.most(t.limit, e.at-run[j].at); sum > most {
				t.Fatalf("%s admits %d units within %d us, want at most %d: %+v", t.limit, sum, e.at-run[j].at, most, events)
			}
		}
	}
}
