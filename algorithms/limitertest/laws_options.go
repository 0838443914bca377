package limitertest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// optionLaws say what an option does, in words that no algorithm has. Each gives its trials the option that it is of.
var optionLaws = []law{
	{"phase_first_is_the_keys_own", "under phase first, a history may begin at any instant", firstIsTheKeysOwn},
	{"phase_hash_moves_the_epoch", "under phase hash a key is judged as one of the epoch that much earlier", hashMovesTheEpoch},
	{"calendar_windows_end_with_their_unit", "a window of the calendar ends where a week, month or year begins", calendarEnds},
	{"refill_is_in_steps", "under refill, an instant is as good as the step before it", refillIsInSteps},
	{"forgotten_is_unused", "under forget, an idle key is as if never used, and any other as without", forgottenIsUnused},
}

// option gives the trial's limit an option, and reports whether the algorithm takes that.
func (t *trial) option(change func(*algorithms.Limit)) bool {
	// A law says nothing of an algorithm that refuses its option.
	l := t.limit
	change(&l)
	if t.subject.Algorithm.Validate(l) != nil {
		return false
	}
	t.limit = l
	return true
}

// firstIsTheKeysOwn finds windows that are aligned to something else than the key. A limit that counts in milliseconds is
// shifted by whole ones.
func firstIsTheKeysOwn(t *trial) {
	events := t.drawEvents()
	first := func(l *algorithms.Limit) {
		l.Phase, l.Calendar, l.Window = algorithms.PhaseFirst, 0, min(l.Window, time.Hour)
	}
	if !t.option(first) {
		return
	}

	// Whole milliseconds: a counter counts in ticks of them, which begin at the Unix epoch in any phase.
	want := t.judge(events...)
	by := 1000 * rapid.Int64Range(-1e9, 1e9).Draw(t.T, "milliseconds")
	for i := range events {
		events[i].at += by
	}
	t.equal(want, t.judge(events...))
}

// hashMovesTheEpoch compares the two phases.
func hashMovesTheEpoch(t *trial) {
	events := t.drawEvents()
	if !t.option(func(l *algorithms.Limit) {
		l.Phase, l.Calendar, l.Window = algorithms.PhaseHash, 0, min(l.Window, time.Hour)
	}) {
		return
	}

	// The same events, earlier by the key's phase, meet windows that begin at the epoch.
	moved := t.judge(events...)
	for i := range events {
		events[i].at -= phaseOf(lawKey, t.limit)
	}
	t.limit.Phase = algorithms.PhaseEpoch
	t.equal(t.judge(events...), moved)
}

// calendarEnds asks the calendar of package time where a window has to end.
func calendarEnds(t *trial) {
	t.drawLimit()
	unit := algorithms.Calendar(rapid.IntRange(1, 3).Draw(t.T, "unit"))
	calendar := func(l *algorithms.Limit) { l.Phase, l.Calendar, l.Window = algorithms.PhaseEpoch, unit, unit.Longest() }
	if !t.option(calendar) || t.limit.Requests == 0 {
		return
	}

	// Instants from a few years, so that leap years and their Februaries are among them.
	begin := time.Date(2023, 12, 1, 0, 0, 0, 0, time.UTC)
	at := begin.Add(time.Microsecond * time.Duration(rapid.Int64Range(0, 4*366*dayMicros).Draw(t.T, "at")))
	d := last(t.judge(event{at.UnixMicro(), 1}))
	end := time.UnixMicro(at.UnixMicro()).UTC().Add(d.ResetAfter)

	// The end is the first instant of a unit, and the first one after the instant.
	begins := map[algorithms.Calendar]bool{
		algorithms.Week: end.Weekday() == time.Monday, algorithms.Month: end.Day() == 1, algorithms.Year: end.YearDay() == 1,
	}
	if !end.Equal(end.Truncate(24*time.Hour)) || !begins[unit] || d.ResetAfter <= 0 || d.ResetAfter > unit.Longest() {
		t.Fatalf("the %s of %s ends at %s", unit, at, end)
	}
}

// refillIsInSteps moves each instant to the step before it: a bucket that forgets would notice.
func refillIsInSteps(t *trial) {
	events := t.drawEvents()
	each := rapid.OneOf(rapid.Int64Range(2, 100), rapid.Just(t.limit.Window.Microseconds())).Draw(t.T, "refill")
	if !t.option(func(l *algorithms.Limit) { l.Refill, l.Forget = time.Microsecond*time.Duration(each), 0 }) {
		return
	}

	// Between two steps nothing comes back, so an event may as well be judged at the step before it. The waits differ.
	want := t.judge(events...)
	for i := range events {
		events[i].at, _ = window(each, events[i].at)
	}
	for i, d := range t.judge(events...) {
		if d.Allowed != want[i].Allowed || d.Remaining != want[i].Remaining {
			t.Fatalf("event %d under %s\n  at the instant  %+v\n  at the step     %+v", i, t.limit, want[i], d)
		}
	}
}

// forgottenIsUnused cuts a history where its bucket has forgotten: each piece is judged as on a key of its own, by the same
// limit without the option.
func forgottenIsUnused(t *trial) {
	events := t.drawEvents()
	forget := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Just(t.limit.Window.Microseconds())).Draw(t.T, "forget")
	if !t.option(func(l *algorithms.Limit) { l.Forget = time.Microsecond * time.Duration(forget) }) || t.limit.Requests == 0 {
		return
	}

	// A piece begins where the bucket has been left alone for as long as it remembers.
	got := t.judge(events...)
	t.limit.Forget = 0
	begin := 0
	charged := events[0].at // a look is no charge
	for i, e := range events {
		if e.at-charged >= forget {
			begin = i
		}
		if e.cost > 0 {
			charged = e.at
		}

		// The waits differ: under the option they end when the bucket forgets.
		d := last(t.judge(events[begin : i+1]...))
		if d.Allowed != got[i].Allowed || d.Remaining != got[i].Remaining {
			t.Fatalf("event %d of %+v under %s:forget=%dus\n  got  %+v\n  the piece from event %d on has %+v",
				i, events, t.limit, forget, got[i], begin, d)
		}
	}
}
