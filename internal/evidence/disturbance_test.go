package evidence

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

var (
	disturbedNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	answerAllow  = algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	answerDeny   = algorithms.Observation{Status: algorithms.Judged}
	answerFailed = algorithms.Failure(context.DeadlineExceeded)
	lostChecks   = algorithms.Observation{Status: algorithms.Judged, Lost: true}
)

// minuteOf returns the only minute and the ticks of a recorder.
func minuteOf(t *testing.T, r *Recorder) (Minute, []Tick) {
	t.Helper()
	slots := r.Batch(disturbedNoon, false).Slots
	if len(slots) != 1 {
		t.Fatalf("%d slots, want one", len(slots))
	}
	return slots[0].Minute, slots[0].Ticks
}

func TestCostThatReachedOneSideOnly(t *testing.T) {
	skip := algorithms.Skip
	storeFailed := answerFailed
	storeFailed.Reason = algorithms.StoreFailed
	const authoritative, candidate = algorithms.Authoritative, algorithms.Candidate
	none := [2]Skips{}
	one := func(role algorithms.Role, reason algorithms.SkipReason) (cost [2]Skips) {
		cost[role][reason] = 3
		return cost
	}
	tests := map[string]struct {
		o             [2]algorithms.Observation
		apart, shared [2]Skips
		compared      [2]int64
	}{
		"both allow":             {[2]algorithms.Observation{answerAllow, answerDeny}, none, none, [2]int64{3, 0}},
		"both deny":              {[2]algorithms.Observation{answerDeny, answerDeny}, none, none, [2]int64{0, 3}},
		"timeout":                {[2]algorithms.Observation{answerAllow, storeFailed}, one(candidate, algorithms.StoreFailed), one(candidate, algorithms.StoreFailed), [2]int64{}},
		"the limiter failed":     {[2]algorithms.Observation{answerAllow, answerFailed}, one(candidate, algorithms.StoreFailed), none, [2]int64{}},
		"authoritative":          {[2]algorithms.Observation{answerFailed, answerDeny}, one(authoritative, algorithms.StoreFailed), none, [2]int64{}},
		"queue full":             {[2]algorithms.Observation{answerDeny, skip(algorithms.QueueFull)}, one(candidate, algorithms.QueueFull), none, [2]int64{}},
		"breaker":                {[2]algorithms.Observation{answerDeny, skip(algorithms.BreakerOpen)}, one(candidate, algorithms.BreakerOpen), none, [2]int64{}},
		"left":                   {[2]algorithms.Observation{answerDeny, skip(algorithms.OtherReason)}, one(candidate, algorithms.OtherReason), none, [2]int64{}},
		"may have run":           {[2]algorithms.Observation{skip(algorithms.BreakerOpen), storeFailed}, one(candidate, algorithms.StoreFailed), none, [2]int64{}},
		"both may have run":      {[2]algorithms.Observation{answerFailed, storeFailed}, one(authoritative, algorithms.StoreFailed), none, [2]int64{}},
		"neither was asked":      {[2]algorithms.Observation{skip(algorithms.BreakerOpen), skip(algorithms.QueueFull)}, none, none, [2]int64{}},
		"evicted":                {[2]algorithms.Observation{answerAllow, lostChecks}, one(candidate, algorithms.StoreFailed), one(candidate, algorithms.StoreFailed), [2]int64{}},
		"evicted, authoritative": {[2]algorithms.Observation{lostChecks, answerAllow}, one(authoritative, algorithms.StoreFailed), one(authoritative, algorithms.StoreFailed), [2]int64{}},
	}

	for name, test := range tests {
		for _, apart := range []bool{true, false} {
			r := NewRecorder(nil)
			r.Observe("k", 7, disturbedNoon, &test.o, &Setting{Cost: 3, Apart: apart, Window: time.Minute, Enforced: candidate})
			want := Disturbance{OneSided: test.shared}
			if apart {
				want = Disturbance{OneSided: test.apart, Compared: test.compared}
			}

			m, ticks := minuteOf(t, r)
			for _, got := range []*Disturbance{m.Disturbed, ticks[0].Disturbed} {
				if got == nil {
					got = &Disturbance{}
				}
				if *got != want {
					t.Errorf("%s, apart %t: %+v, want %+v", name, apart, *got, want)
				}
			}
			if !apart && test.shared == none && m.Disturbed != nil {
				t.Errorf("%s: sides that share a record have a disturbance", name)
			}
		}
	}
}

// A difference of a key that each side has denied within the last window is counted apart, and its key is named in
// nothing that speaks against the candidate.
func TestDifferencesOfKeysThatBothDenied(t *testing.T) {
	const window = time.Minute
	type check struct {
		after time.Duration
		o     [2]algorithms.Observation
	}
	allowDeny := [2]algorithms.Observation{answerAllow, answerDeny}
	denyAllow := [2]algorithms.Observation{answerDeny, answerAllow}
	denyDeny := [2]algorithms.Observation{answerDeny, answerDeny}
	tests := map[string]struct {
		checks []check
		want   [2]int64
	}{
		"never denied by the authoritative": {[]check{{0, allowDeny}, {time.Second, allowDeny}}, [2]int64{}},
		"denied by both at once":            {[]check{{0, denyDeny}, {time.Second, allowDeny}, {time.Second, denyAllow}}, [2]int64{1, 1}},
		"denied by each":                    {[]check{{0, denyAllow}, {time.Second, allowDeny}}, [2]int64{1, 0}},
		"in the generation before":          {[]check{{0, denyDeny}, {window, denyAllow}}, [2]int64{0, 1}},
		"long ago":                          {[]check{{0, denyDeny}, {window, allowDeny}, {window, allowDeny}}, [2]int64{1, 0}},
		"after a clock went back":           {[]check{{0, denyDeny}, {-time.Hour, denyAllow}, {-time.Hour, denyAllow}}, [2]int64{0, 1}},
	}

	for name, test := range tests {
		r, at := NewRecorder(nil), disturbedNoon
		var differences, named int64
		for _, c := range test.checks {
			at = at.Add(c.after)
			if o := r.Observe("k", 7, at, &c.o, &Setting{Cost: 1, Apart: true, Window: window, Enforced: algorithms.Candidate}); o.differs() {
				differences++
			}
		}
		var got [2]int64
		for _, s := range r.Batch(at, false).Slots {
			if s.Disturbed == nil { // the instance was present
				continue
			}
			got[0], got[1] = got[0]+s.Disturbed.Shifted[0], got[1]+s.Disturbed.Shifted[1]
			left := s.Disturbed.Unshifted(s.Tally)
			named += left[NewlyDenied] + left[NewlyAllowed]
			if wantKeys := min(1, left[NewlyDenied]+left[NewlyAllowed]); int64(len(s.Keys[OfComparisons])) != wantKeys {
				t.Errorf("%s: %d keys are sampled, want %d", name, len(s.Keys[OfComparisons]), wantKeys)
			}
		}
		if got != test.want || named != differences-got[0]-got[1] {
			t.Errorf("%s: %v of %d differences are left out, want %v", name, got, differences, test.want)
		}
	}
}

// A candidate that allows less than the authoritative is a capacity behind sooner or later, and then its differences count
// also of keys that both deny; those of two sides that differ by their phase alone never do.
func TestDifferencesOfMoreThanAPhaseCount(t *testing.T) {
	const capacity, window = 5, time.Minute
	limit := algorithms.Limit{Requests: capacity, Window: window}
	shifted := func(differences ...[2]algorithms.Observation) (n int64) {
		r, setting := NewRecorder(nil), &Setting{Cost: 1, Apart: true, Window: window, Limits: [2]algorithms.Limit{limit, limit}}
		both := [2]algorithms.Observation{answerDeny, answerDeny}
		at := disturbedNoon
		for _, o := range differences {
			r.Observe("k", 7, at, &both, setting)
			r.Observe("k", 7, at, &o, setting)
			at = at.Add(window / 2)
		}
		for _, s := range r.Batch(at, true).Slots {
			if s.Disturbed != nil {
				n += s.Disturbed.Shifted[0] + s.Disturbed.Shifted[1]
			}
		}
		return n
	}

	allowDeny, denyAllow := [2]algorithms.Observation{answerAllow, answerDeny}, [2]algorithms.Observation{answerDeny, answerAllow}
	denies := slices.Repeat([][2]algorithms.Observation{allowDeny}, capacity)
	allows := slices.Repeat([][2]algorithms.Observation{denyAllow}, capacity)
	phase := slices.Concat(denies, allows, denies, allows, denies)
	if got := shifted(phase...); got != int64(len(phase)) {
		t.Errorf("%d of %d differences of phase are left out", got, len(phase))
	}
	if got := shifted(slices.Concat(denies, denies, denies)...); got != capacity {
		t.Errorf("%d newly denied are left out, want %d", got, capacity)
	}
	if got := shifted(slices.Concat(allows, allows, allows)...); got != capacity {
		t.Errorf("%d newly allowed are left out, want %d", got, capacity)
	}
}

// What is remembered of denied keys is bounded, however many are denied and whatever the window.
func TestDeniedKeysAreBounded(t *testing.T) {
	r := NewRecorder(nil)
	o := [2]algorithms.Observation{answerDeny, answerAllow}
	for n := range uint64(300_000) {
		r.Observe("k", n*0x9e3779b97f4a7c15, disturbedNoon, &o, &Setting{Cost: 1, Apart: true, Window: 24 * time.Hour})
	}
	n := 0
	for i := range r.stripes {
		n += len(r.stripes[i].denied.latest) + len(r.stripes[i].denied.before)
	}
	if n < mostDenied || n > 2*mostDenied {
		t.Errorf("%d keys are remembered, want %d to %d", n, mostDenied, 2*mostDenied)
	}
}

// Of a side in a young process the decisions are counted, and how many checks were not compared.
func TestYoungSidesAreNotCompared(t *testing.T) {
	r := NewRecorder(nil)
	o := [2]algorithms.Observation{answerAllow, answerDeny}
	r.Observe("k", 7, disturbedNoon, &o, &Setting{Cost: 1, Apart: true, Window: time.Minute, Young: true, Enforced: algorithms.Candidate})

	m, ticks := minuteOf(t, r)
	if m.Tally != (Tally{}) || *m.Disturbed != (Disturbance{Young: 1}) {
		t.Errorf("%+v with %+v, and ticks %v", m, m.Disturbed, ticks)
	}
	if ticks[0].Tally != (Tally{Inconclusive: 1}) || ticks[0].Alone != [2]int64{0, 1} || ticks[0].Disturbed != nil {
		t.Errorf("tick %+v, want the candidate's denial by itself", ticks[0])
	}
	totals := r.Totals()
	if totals.Outcomes != (Tally{}) || totals.Decisions != [2]Decisions{{Allowed: 1}, {Denied: 1}} {
		t.Errorf("totals %+v, want the decisions alone", totals)
	}
}

func TestMarksAndCostBesideObservations(t *testing.T) {
	r := NewRecorder(nil)
	r.Mark(disturbedNoon)
	r.OneSided(7, disturbedNoon, algorithms.Authoritative, 5, algorithms.OtherReason)
	r.OneSided(7, disturbedNoon, algorithms.Candidate, math.MaxInt64, algorithms.QueueFull)
	r.OneSided(7, disturbedNoon, algorithms.Candidate, math.MaxInt64, algorithms.QueueFull)

	want := Disturbance{Marks: 1}
	want.OneSided[algorithms.Authoritative][algorithms.OtherReason] = 5
	want.OneSided[algorithms.Candidate][algorithms.QueueFull] = mostCost
	m, ticks := minuteOf(t, r)
	if *m.Disturbed != want || *ticks[0].Disturbed != want || want.Missed() != mostCost {
		t.Errorf("%+v and %+v, want %+v", m.Disturbed, ticks[0].Disturbed, want)
	}
}

// Answers of a candidate without the authoritative's are counted, for the alarm that looks at them alone.
func TestAnswersOfTheCandidateAlone(t *testing.T) {
	r := NewRecorder(nil)
	for key, o := range [][2]algorithms.Observation{
		{answerFailed, answerDeny}, {answerFailed, answerAllow}, {algorithms.Skip(algorithms.BreakerOpen), answerDeny},
		{answerAllow, answerDeny}, {answerFailed, answerFailed},
	} {
		r.Observe("k", uint64(key)<<32, disturbedNoon, &o, &Setting{Cost: 1, Apart: true, Window: time.Minute, Enforced: algorithms.Candidate})
	}
	if _, ticks := minuteOf(t, r); ticks[0].Alone != [2]int64{1, 2} || len(ticks[0].Lonely) != 2 || ticks[0].Lonely.Total() != 2 {
		t.Errorf("%+v, want one allowed and two denied of two keys", ticks[0])
	}
}

// A disturbance that is joined has every field of both, changes neither, and comes back from the ledger.
func TestDisturbancesJoin(t *testing.T) {
	var one, two Disturbance
	fillNumbers(t, reflect.ValueOf(&one).Elem(), 1)
	fillNumbers(t, reflect.ValueOf(&two).Elem(), 2)

	a, b := Minute{Disturbed: &one}, Minute{}
	a.Join(&Minute{Disturbed: &one})
	b.Join(&a)
	b.Join(&Minute{})
	if *a.Disturbed != two || *b.Disturbed != two || one.Marks != 1 {
		t.Errorf("twice %+v is %+v and %+v", one, a.Disturbed, b.Disturbed)
	}

	text, err := json.Marshal(packed(&Hour{Minutes: []Minute{a}}))
	if err != nil {
		t.Fatal(err)
	}
	var p packedHour
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	h, err := p.unpack(0)
	if err != nil || *h.Minutes[0].Disturbed != two {
		t.Errorf("read back: %+v %v", h.Minutes, err)
	}
}
