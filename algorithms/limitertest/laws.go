package limitertest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// law is one sentence about every algorithm and a check of it. The check draws a random
// history and fails its trial where the sentence is broken; rapid then shrinks the history.
type law struct {
	name, sentence string
	check          func(*trial)
}

// laws are checked for every algorithm and every pair. G1 to G13 are the laws of a single
// limiter under a clock that does not go back. Only G2 and the bound of G1 need the
// oracle. The others also find a mistake that the oracle shares with the algorithm.
var laws = []law{
	{"G1_upper_bound", "no interval admits more than the algorithm's bound", upperBound},
	{"G2_no_false_denial", "every decision is the oracle's: nothing is denied that the definition admits", equalsOracle},
	{"G3_cheaper_is_allowed", "where a cost is allowed, every smaller cost is", cheaperAllowed},
	{"G4_denial_leaves_no_trace", "removing a denial from the history changes nothing", denialLeavesNoTrace},
	{"G5_peek_is_pure", "a cost of 0 is allowed and changes nothing", peekIsPure},
	{"G6_retry_after_is_exact", "a denied cost is allowed after RetryAfter and denied one microsecond sooner", retryAfterExact},
	{"G7_keys_are_apart", "what one key spends, no other key notices, odd keys included", keysApart},
	{"G8_remaining_is_exact", "a cost of Remaining is allowed, one more is denied", remainingExact},
	{"G9_reset_after_is_exact", "after ResetAfter, and not a microsecond sooner, the key is as if never used: all remains", resetAfterExact},
	{"G10_shift", "moving a history by whole windows changes nothing", shiftInvariant},
	{"G11_scale", "multiplying limit, burst and costs by the same number keeps every decision", scales},
	{"G12_deterministic", "the same history has the same decisions", deterministic},
	{"G13_concurrent", "checks of 1 that arrive together admit exactly the capacity", concurrent},
	{"backwards_time_mints_nothing", "a history that goes back within a window is judged as if time had stood still", backwardsMintsNothing},
	{"a_step_back_keeps_what_was_spent", "after a step back of over a window as much remains as before it", stepBackKeeps},
	{"no_clock_locks_out", "whatever the clock does, no wait is longer than a window and the usual wait, and each one ends", clockLocksNotOut},
	{"no_clock_mints_more_than_it_steps", "between two steps of over a window, no interval admits more than the bound", clockMintsNoMore},
	{"over_capacity_is_never", "a cost above the capacity is denied with RetryAfter Never and leaves no trace", overCapacityNever},
	{"twins_agree", "two sides of one limit have equal answers in each check of both, if none came to one of them alone", twinsAgree},
	{"a_twin_begins_as_a_copy", "a side that begins beside one of its algorithm and window answers as that one does", twinBeginsAsCopy},
	{"a_copy_is_apart", "what a side is charged that began as a copy, the other one does not notice", copyIsApart},
	{"a_deferred_charge_moves_nothing_back", "a deferred check is judged at its side's last one that counts, however far that is ahead", deferredStands},
	{"listed_twins_agree", "two sides of one limit that are charged together with other policies have equal answers, whatever is enforced", listedTwinsAgree},
	{"listed_candidates_are_harmless", "nothing that is enforced in a list depends on a side that is not", listedCandidatesAreHarmless},
	{"settled_at_once_is_as_if", "a check that is settled to less at once leaves what one of the final cost would have left", settledAtOnceIsAsIf},
	{"settled_twins_agree", "two sides of one limit have equal answers, whenever what both were charged is settled", settledTwinsAgree},
	{"a_denied_list_leaves_no_trace", "removing the requests that a list denies changes nothing in it", deniedListLeavesNoTrace},
}

// upperBound finds what a limiter must never do, whatever its details: let too much through.
// The bound is the one that operators plan with, such as twice the limit of a fixed window.
func upperBound(t *trial) {
	events := t.drawEvents()
	t.holdsBound(events, t.judge(events...))
}

// equalsOracle finds every other mistake, in the words of the definition.
func equalsOracle(t *trial) {
	events := t.drawEvents()
	oracle := NewOracle(t.subject.Algorithm.Name())

	for i, d := range t.judge(events...) {
		if want := oracle.Step(t.limit, events[i].cost, events[i].at); d != want {
			t.Fatalf("event %d of %+v under %s\n  want %+v\n  got  %+v", i, events, t.limit, want, d)
		}
	}
}

// cheaperAllowed finds a decision that depends on a cost in another way than by its room.
func cheaperAllowed(t *trial) {
	events := t.drawEvents()
	if d := last(t.judge(events...)); !d.Allowed {
		return
	}

	final := &events[len(events)-1]
	final.cost = rapid.Int64Range(0, final.cost).Draw(t.T, "cheaper")
	if d := last(t.judge(events...)); !d.Allowed {
		t.Fatalf("cost %d is denied where a larger one is allowed", final.cost)
	}
}

// denialLeavesNoTrace finds limiters in which a client that insists locks itself out. It also
// keeps RetryAfter true: a denial that moved an instant would move the end of the wait.
func denialLeavesNoTrace(t *trial) {
	t.sameWithout(func(_ event, d algorithms.Decision) bool { return !d.Allowed })
}

// peekIsPure finds a look at a budget that opens a window or moves an instant. A caller
// that only looks must not change the decisions of a client.
func peekIsPure(t *trial) {
	t.sameWithout(func(e event, d algorithms.Decision) bool {
		if e.cost == 0 && !d.Allowed {
			t.Fatalf("a peek is denied")
		}
		return e.cost == 0
	})
}

// retryAfterExact finds waits that are rounded: a client that heeds them must be allowed,
// and must not wait in vain.
func retryAfterExact(t *trial) {
	events := t.drawEvents()
	final := events[len(events)-1]

	d := last(t.judge(events...))
	if d.Allowed != (d.RetryAfter == 0) {
		t.Fatalf("allowed=%t but RetryAfter=%s", d.Allowed, d.RetryAfter)
	}
	if d.Allowed || d.RetryAfter == algorithms.Never {
		return
	}

	// The history is judged again on a fresh key, so the two probes do not see each other.
	r := d.RetryAfter.Microseconds()
	if again := last(t.judge(append(events, event{final.at + r, final.cost})...)); !again.Allowed {
		t.Fatalf("denied again after RetryAfter %s: %+v", d.RetryAfter, again)
	}
	if again := last(t.judge(append(events, event{final.at + r - 1, final.cost})...)); again.Allowed {
		t.Fatalf("allowed 1us before RetryAfter %s", d.RetryAfter)
	}
}

// oddKeys are keys that a store could confuse: by its separators and hash tags, by cutting
// or trimming them, or by the mark of a hashed key.
var oddKeys = []string{
	"", " ", ":", "{", "}", "{}", "a:b", "a}b{", "\x00", "\n", "é", "日本", "#", "#00", "key", "key ",
	strings.Repeat("k", 256), strings.Repeat("k", 257), strings.Repeat("k", 300),
}

// keysApart finds stores that confuse keys. All trials share the odd keys, so each trial
// has a policy of its own.
func keysApart(t *trial) {
	events := t.drawEvents()
	want := t.judge(events...)

	t.policy = "laws-" + freshName()
	for _, key := range rapid.Permutation(oddKeys).Draw(t.T, "keys")[:4] {
		t.equal(want, t.judgeKey(key, t.limit, events...))
	}
}

// remainingExact finds rests that are rounded up, or that ignore the instant.
func remainingExact(t *trial) {
	events := t.drawEvents()
	final := events[len(events)-1]

	d := last(t.judge(events...))
	if d.Remaining < 0 || d.Remaining > t.limit.Capacity() {
		t.Fatalf("Remaining %d is not within 0 to %d", d.Remaining, t.limit.Capacity())
	}

	// One more than Remaining must be denied at the same instant, not only later.
	if again := last(t.judge(append(events, event{final.at, d.Remaining})...)); !again.Allowed {
		t.Fatalf("a cost of Remaining %d is denied", d.Remaining)
	}
	if again := last(t.judge(append(events, event{final.at, d.Remaining + 1})...)); again.Allowed {
		t.Fatalf("a cost of Remaining+1 = %d is allowed", d.Remaining+1)
	}
}

// resetAfterExact finds records that would expire too early, and so mint units, or too late.
func resetAfterExact(t *trial) {
	events := t.drawEvents()
	final := events[len(events)-1]

	d := last(t.judge(events...))
	if d.ResetAfter == 0 {
		if d.Remaining != t.limit.Capacity() {
			t.Fatalf("ResetAfter 0 with %d of %d remaining", d.Remaining, t.limit.Capacity())
		}
		return
	}

	// A key of which all remains is as if never used.
	if d.Remaining == t.limit.Capacity() {
		t.Fatalf("all %d remain %s before the key is as if never used", d.Remaining, d.ResetAfter)
	}

	// A check of the whole capacity is decided as for a fresh key only if nothing is owed.
	reset := final.at + d.ResetAfter.Microseconds()
	probe := event{reset, t.limit.Capacity()}
	if used, fresh := last(t.judge(append(events, probe)...)), last(t.judge(probe)); used != fresh {
		t.Fatalf("after ResetAfter %s\n  a fresh key has %+v\n  this one has    %+v", d.ResetAfter, fresh, used)
	}
	if sooner := last(t.judge(append(events, event{reset - 1, 0})...)); sooner.ResetAfter != time.Microsecond {
		t.Fatalf("1us before ResetAfter %s the reset is %s away", d.ResetAfter, sooner.ResetAfter)
	}
}

// shiftInvariant finds instants that overflow, and windows that are not aligned. The shift is
// of whole windows, because aligned windows begin at multiples of their length.
func shiftInvariant(t *trial) {
	events := t.drawEvents()
	shift := rapid.Int64Range(-1000, 1000).Draw(t.T, "windows") * t.limit.Window.Microseconds()
	want := t.judge(events...)

	for i := range events {
		events[i].at += shift
	}
	t.equal(want, t.judge(events...))
}

// scales finds products that overflow or round. Numbers in Redis scripts are doubles, exact
// below 2^53 only.
func scales(t *trial) {
	events := t.drawEvents()
	by := rapid.Int64Range(2, 9).Draw(t.T, "by")

	scaled := t.limit
	scaled.Requests *= by
	scaled.Burst *= by
	if t.subject.Algorithm.Validate(scaled) != nil {
		return // too large to be exact
	}

	want := t.judge(events...)
	for i := range events {
		events[i].cost *= by
	}

	// Only the decisions stay: a rest that is rounded down to whole units does not scale.
	for i, d := range t.judgeUnder(scaled, events...) {
		if d.Allowed != want[i].Allowed {
			t.Fatalf("event %d: allowed=%t, times %d allowed=%t", i, want[i].Allowed, by, d.Allowed)
		}
	}
}

// deterministic finds decisions that depend on the clock, on chance or on another key. Without
// it neither a replay nor a comparison of two pairs would prove anything.
func deterministic(t *trial) {
	events := t.drawEvents()
	t.equal(t.judge(events...), t.judge(events...))
}

// concurrent finds a check that reads a state before another one has written it. All checks
// have one instant, so nothing refills in between, and the number admitted is exact.
func concurrent(t *trial) {
	const callers = 4
	t.drawLimit()
	key := freshName()

	// Together a little more than the capacity.
	each := t.limit.Capacity()/callers + 2
	if each > 50 {
		return // the small limits show it as well
	}

	var admitted atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			check := algorithms.Check{Policy: t.policy, Key: key, Cost: 1, At: time.UnixMicro(base),
				Sides: [2]algorithms.Side{{Algorithm: t.subject.Algorithm, Limit: t.limit}}}
			for range each {
				var into [1][2]algorithms.Observation
				err := t.pair.Evaluate(context.Background(), []algorithms.Check{check}, into[:])
				if err == nil && into[0][0].Decision.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()

	if admitted.Load() != t.limit.Capacity() {
		t.Fatalf("%d callers of %d charges admit %d of %d", callers, each, admitted.Load(), t.limit.Capacity())
	}
}

// overCapacityNever finds costs so large that their products overflow into an admission.
func overCapacityNever(t *trial) {
	events := t.drawEvents()
	events[len(events)-1].cost = t.limit.Capacity() + rapid.Int64Range(1, 1<<52).Draw(t.T, "over")
	decisions := t.judge(events...)
	if d := last(decisions); d.Allowed || d.RetryAfter != algorithms.Never {
		t.Fatalf("cost above capacity %d: %+v", t.limit.Capacity(), d)
	}
}
