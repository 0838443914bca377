package divergence_test

import (
	"reflect"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// oneStripe returns different hashes of keys that all belong to one stripe: there are at most 64 stripes.
func oneStripe(n int) uint64 { return uint64(n+1) << 6 }

func TestKeysAreOfTheKindsOfTheirOutcome(t *testing.T) {
	seen, denied := divergence.KeysSeen, divergence.KeysDenied
	tests := map[divergence.Outcome][]divergence.KeyKind{
		divergence.AgreeAllow:         {seen},
		divergence.AgreeDeny:          {seen, denied},
		divergence.NewlyDenied:        {seen, divergence.KeysNewlyDenied},
		divergence.NewlyAllowed:       {seen, denied, divergence.KeysNewlyAllowed},
		divergence.CandidateError:     {seen},
		divergence.AuthoritativeError: {seen},
		divergence.Inconclusive:       {seen},
	}

	for outcome, want := range tests {
		r := divergence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(outcome), &divergence.Setting{Cost: 1})

		for kind, hashes := range r.Snapshot(noon).Keys {
			if got := len(hashes) == 1; got != slices.Contains(want, divergence.KeyKind(kind)) {
				t.Errorf("%s: the key is among the %s ones: %t", outcome, divergence.KeyKind(kind), got)
			}
		}
	}
}

// A declared difference is no newly allowed key, but the authoritative has denied it.
func TestKeysOfDeclaredDifferences(t *testing.T) {
	r := divergence.NewRecorder(nil)
	declared := &divergence.Setting{Cost: 1, Expected: algorithms.Expected{NewlyAllowed: true, NewlyDenied: true}}
	r.Observe("a", 7, noon, observed(divergence.NewlyAllowed), declared)
	r.Observe("b", 8, noon, observed(divergence.NewlyDenied), declared)

	keys := r.Snapshot(noon).Keys
	if n := len(keys[divergence.KeysDenied]); n != 1 {
		t.Errorf("%d denied keys, want 1", n)
	}
	if denied, allowed := keys[divergence.KeysNewlyDenied], keys[divergence.KeysNewlyAllowed]; len(denied)+len(allowed) > 0 {
		t.Errorf("newly denied %v, newly allowed %v, want none", denied, allowed)
	}
}

// A key is sent to the ledger once an hour, however often it occurs. The first snapshot of a new hour is the occasion
// to send keys again: the ledger may have lost them.
func TestKeysAreSentOnceAnHour(t *testing.T) {
	r := divergence.NewRecorder(nil)
	r.Commit(r.Snapshot(noon), noon)

	for i, want := range []int{1, 0, 0, 0, 1, 0} {
		now := noon.Add(time.Duration(i) * 20 * time.Minute)
		for range 5 {
			r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		}

		s := r.Snapshot(now)
		r.Commit(s, now)
		if got := len(s.Keys[divergence.KeysSeen]); got != want {
			t.Errorf("at %s the key is sent %d times, want %d", now.Format("15:04"), got, want)
		}
	}
}

// The hashes that wait for the ledger are bounded, in a stripe and over failed writes.
func TestHashesThatWaitAreBounded(t *testing.T) {
	r := divergence.NewRecorder(nil)
	for round := range 20 {
		for n := range 5000 {
			r.Observe("k", oneStripe(round*5000+n), noon, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		}

		got := len(r.Snapshot(noon).Keys[divergence.KeysSeen])
		if want := min((round+1)*4096, 64*1024); got != want {
			t.Errorf("after %d failed writes %d hashes wait, want %d", round, got, want)
		}
		r.Abandon(noon)
	}
}

// An observation counts in its hour for as long as a recorder keeps hours, and then in the oldest that it keeps.
func TestLateObservationsCountInTheirHour(t *testing.T) {
	r := divergence.NewRecorder(nil)
	later := noon.Add(5 * time.Hour)
	r.Commit(r.Snapshot(later), later)
	for _, hours := range []time.Duration{3, 4} {
		r.Observe("k", 7, later.Add(-hours*time.Hour), observed(divergence.NewlyDenied), &divergence.Setting{Cost: 1})
	}

	open := r.Snapshot(later).Record.Open
	if oldest := later.Unix()/divergence.SecondsPerHour - 3; open[0].Unix != oldest || open[0].Minutes[0].Tally[divergence.NewlyDenied] != 2 {
		t.Errorf("the first hour is %+v, want both observations in hour %d", open[0], oldest)
	}
}

func TestCompletedMigrationsAreNotCompared(t *testing.T) {
	r := divergence.NewRecorder(nil)
	r.Observe("k", 7, noon, observed(divergence.Inconclusive), &divergence.Setting{Cost: 1, Completed: true})

	totals := r.Totals()
	if totals.Outcomes != (divergence.Tally{}) || totals.Decisions[algorithms.Authoritative].Allowed != 1 {
		t.Errorf("outcomes %v, decisions %+v, want the decision alone", totals.Outcomes, totals.Decisions)
	}
}

// The fast triggers see the keys for which the candidate is enforced.
func TestTicksAreOfEnforcedCandidates(t *testing.T) {
	tests := []struct {
		name    string
		setting divergence.Setting
		want    int
	}{
		{"in shadow", divergence.Setting{Cost: 1}, 0},
		{"enforced", divergence.Setting{Cost: 1, Enforced: algorithms.Candidate}, 1},
	}

	for _, tt := range tests {
		r := divergence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(divergence.NewlyDenied), &tt.setting)
		if got := len(r.Snapshot(noon).Ticks); got != tt.want {
			t.Errorf("%s: %d ticks, want %d", tt.name, got, tt.want)
		}
	}
}

// Keys that are not UTF-8 stay different in the ledger, whose JSON has no place for their bytes.
func TestKeysThatAreNotUTF8StayDifferent(t *testing.T) {
	r := divergence.NewRecorder(nil)
	for _, key := range []string{"\xff", "\xfe"} {
		r.Observe(key, 7, noon, observed(divergence.NewlyDenied), &divergence.Setting{Cost: 1})
	}

	top := r.Snapshot(noon).Tops[divergence.KeysNewlyDenied]
	if len(top) != 2 || top[0].Key == top[1].Key || !utf8.ValidString(top[0].Key) || !utf8.ValidString(top[1].Key) {
		t.Errorf("the keys are %v, want two different texts in UTF-8", top)
	}
}

// Restart begins the evidence again, under another incarnation. Totals are metrics and stay.
func TestRestartForgetsTheEvidence(t *testing.T) {
	r := divergence.NewRecorder(nil)
	enforced := &divergence.Setting{Cost: 1, Enforced: algorithms.Candidate}
	for _, key := range []uint64{7, 8} {
		r.Observe("k", key, noon, observed(divergence.NewlyDenied), enforced)
		r.Snapshot(noon)
		r.Abandon(noon)
	}

	before := r.Snapshot(noon)
	r.Abandon(noon)
	r.Restart()
	after := r.Snapshot(noon)
	if after.Incarnation == before.Incarnation {
		t.Error("the new evidence would be written over the old")
	}

	if len(after.Record.Open) != 1 || len(after.Record.Open[0].Minutes) != 0 || len(after.Ticks) != 0 {
		t.Errorf("hours %v, ticks %v, want a live minute and nothing else", after.Record.Open, after.Ticks)
	}
	for kind := range after.Keys {
		if len(after.Keys[kind])+len(after.Tops[kind]) > 0 {
			t.Errorf("%s keys: %v, most frequent %v, want none",
				divergence.KeyKind(kind), after.Keys[kind], after.Tops[kind])
		}
	}
	if n := r.Totals().Outcomes[divergence.NewlyDenied]; n != 2 {
		t.Errorf("the totals have %d newly denied, want 2", n)
	}
}

// While there is no ledger, a recorder keeps the last four hours. Where no judge folds, it keeps the last eight.
func TestHoursThatWaitAreBounded(t *testing.T) {
	r := divergence.NewRecorder(nil)
	now := noon
	for range 12 {
		now = now.Add(time.Hour)
		r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		r.Present(now)
	}

	if n := len(r.Snapshot(now).Record.Open); n != 4 {
		t.Errorf("%d hours wait for the ledger, want 4", n)
	}

	r.Commit(r.Snapshot(now), now)
	for range 30 {
		now = now.Add(time.Hour)
		r.Commit(r.Snapshot(now), now)
	}
	if record := r.Snapshot(now).Record; record.Batch != 1 || len(record.Sealed) > 8 || len(record.Open) != 8 {
		t.Errorf("batch %d of %d hours and %d open ones, want the first batch and 8", record.Batch, len(record.Sealed), len(record.Open))
	}
}

// A record that may not be written is repeated as it is, and what is counted meanwhile comes with the next one.
func TestRecordsAreRepeated(t *testing.T) {
	r := divergence.NewRecorder(nil)
	observe := func() { r.Observe("k", 7, noon, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1}) }
	observe()
	first := r.Snapshot(noon)
	r.Abandon(noon)
	observe()

	second := r.Brief(noon.Add(time.Second))
	if !second.Repeated || !reflect.DeepEqual(first.Record, second.Record) {
		t.Errorf("after %+v follows %+v, want the same", first.Record, second.Record)
	}
	r.Commit(second, noon)
	if n := r.Snapshot(noon).Record.Open[0].Minutes[0].Tally[divergence.AgreeAllow]; n != 2 {
		t.Errorf("%d comparisons, want 2", n)
	}
}

// A snapshot has the ticks of the current entry of the ledger and of the one before.
func TestOldTicksAreDropped(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 1, 19 * time.Minute: 1, 20 * time.Minute: 0} {
		r := divergence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(divergence.NewlyDenied), &divergence.Setting{Cost: 1, Enforced: algorithms.Candidate})
		if got := len(r.Snapshot(noon.Add(after)).Ticks); got != want {
			t.Errorf("%s later: %d ticks, want %d", after, got, want)
		}
	}
}
