package evidence_test

import (
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// oneStripe returns different hashes of keys that all belong to one stripe: there are at most 64 stripes.
func oneStripe(n int) uint64 { return uint64(n+1) << 6 }

func TestKeysAreOfTheKindsOfTheirOutcome(t *testing.T) {
	seen, denied := evidence.KeysSeen, evidence.KeysDenied
	tests := map[evidence.Outcome][]evidence.KeyKind{
		evidence.AgreeAllow:         {seen},
		evidence.AgreeDeny:          {seen, denied},
		evidence.NewlyDenied:        {seen, evidence.KeysNewlyDenied},
		evidence.NewlyAllowed:       {seen, denied, evidence.KeysNewlyAllowed},
		evidence.CandidateError:     {seen},
		evidence.AuthoritativeError: {seen},
		evidence.Inconclusive:       {seen},
	}

	for outcome, want := range tests {
		r := evidence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(outcome), &evidence.Setting{Cost: 1})

		for kind, hashes := range r.Batch(noon, true).Keys {
			if got := len(hashes) == 1; got != slices.Contains(want, evidence.KeyKind(kind)) {
				t.Errorf("%s: the key is among the %s ones: %t", outcome, evidence.KeyKind(kind), got)
			}
		}
	}
}

// A declared difference is no newly allowed key, but the authoritative has denied it.
func TestKeysOfDeclaredDifferences(t *testing.T) {
	r := evidence.NewRecorder(nil)
	declared := &evidence.Setting{Cost: 1, Expected: algorithms.Expected{NewlyAllowed: true, NewlyDenied: true}}
	r.Observe("a", 7, noon, observed(evidence.NewlyAllowed), declared)
	r.Observe("b", 8, noon, observed(evidence.NewlyDenied), declared)

	keys := r.Batch(noon, true).Keys
	if n := len(keys[evidence.KeysDenied]); n != 1 {
		t.Errorf("%d denied keys, want 1", n)
	}
	if denied, allowed := keys[evidence.KeysNewlyDenied], keys[evidence.KeysNewlyAllowed]; len(denied)+len(allowed) > 0 {
		t.Errorf("newly denied %v, newly allowed %v, want none", denied, allowed)
	}
}

// A key is sent to the ledger once an hour, however often it occurs. The first batch of a new hour is the occasion
// to send keys again: the ledger may have lost them.
func TestKeysAreSentOnceAnHour(t *testing.T) {
	r := evidence.NewRecorder(nil)
	r.Written(r.Batch(noon, true))

	for i, want := range []int{1, 0, 0, 0, 1, 0} {
		now := noon.Add(time.Duration(i) * 20 * time.Minute)
		for range 5 {
			r.Observe("k", 7, now, observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
		}

		s := r.Batch(now, true)
		r.Written(s)
		if got := len(s.Keys[evidence.KeysSeen]); got != want {
			t.Errorf("at %s the key is sent %d times, want %d", now.Format("15:04"), got, want)
		}
	}
}

// The hashes that wait for the ledger are bounded, in a stripe and over failed writes.
func TestHashesThatWaitAreBounded(t *testing.T) {
	r := evidence.NewRecorder(nil)
	for round := range 20 {
		for n := range 5000 {
			r.Observe("k", oneStripe(round*5000+n), noon, observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
		}

		if got := len(r.Batch(noon, true).Keys[evidence.KeysSeen]); got != 4096 {
			t.Errorf("after %d failed writes a batch has %d hashes, want 4096", round, got)
		}
	}
}

// An observation counts in its hour for as long as a recorder keeps hours, and then in the oldest that it keeps.
func TestLateObservationsCountInTheirHour(t *testing.T) {
	r := evidence.NewRecorder(nil)
	later := noon.Add(5 * time.Hour)
	r.Written(r.Batch(later, true))
	for _, hours := range []time.Duration{2, 3} {
		r.Observe("k", 7, later.Add(-hours*time.Hour), observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
	}

	slots := r.Batch(later, true).Slots
	if oldest := later.Add(-2*time.Hour).Unix() / evidence.SecondsPerMinute; slots[0].Unix != oldest || slots[0].Tally[evidence.NewlyDenied] != 2 {
		t.Errorf("the first slot is %+v, want both observations in minute %d", slots[0], oldest)
	}
}

func TestCompletedMigrationsAreNotCompared(t *testing.T) {
	r := evidence.NewRecorder(nil)
	r.Observe("k", 7, noon, observed(evidence.Inconclusive), &evidence.Setting{Cost: 1, Completed: true})

	totals := r.Totals()
	if totals.Outcomes != (evidence.Tally{}) || totals.Decisions[algorithms.Authoritative].Allowed != 1 {
		t.Errorf("outcomes %v, decisions %+v, want the decision alone", totals.Outcomes, totals.Decisions)
	}
}

// The fast triggers see the keys for which the candidate is enforced.
func TestTicksAreOfEnforcedCandidates(t *testing.T) {
	tests := []struct {
		name    string
		setting evidence.Setting
		want    int
	}{
		{"in shadow", evidence.Setting{Cost: 1}, 0},
		{"enforced", evidence.Setting{Cost: 1, Enforced: algorithms.Candidate}, 1},
	}

	for _, tt := range tests {
		r := evidence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(evidence.NewlyDenied), &tt.setting)
		if got := len(r.Batch(noon, true).Slots[0].Ticks); got != tt.want {
			t.Errorf("%s: %d ticks, want %d", tt.name, got, tt.want)
		}
	}
}

// Keys that are not UTF-8 stay different in the ledger, whose JSON has no place for their bytes.
func TestKeysThatAreNotUTF8StayDifferent(t *testing.T) {
	r := evidence.NewRecorder(nil)
	for _, key := range []string{"\xff", "\xfe"} {
		r.Observe(key, 7, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
	}

	top := r.Batch(noon, true).Tops[evidence.KeysNewlyDenied]
	if len(top) != 2 || top[0].Key == top[1].Key || !utf8.ValidString(top[0].Key) || !utf8.ValidString(top[1].Key) {
		t.Errorf("the keys are %v, want two different texts in UTF-8", top)
	}
}

// Restart begins the evidence again, as another writer. Totals are metrics and stay.
func TestRestartForgetsTheEvidence(t *testing.T) {
	r := evidence.NewRecorder(nil)
	enforced := &evidence.Setting{Cost: 1, Enforced: algorithms.Candidate}
	r.Observe("k", 7, noon, observed(evidence.NewlyDenied), enforced)
	before := r.Batch(noon, true)
	r.Observe("k", 8, noon, observed(evidence.NewlyDenied), enforced)

	r.Restart()
	r.Written(before)
	after := r.Batch(noon, true)
	if after.Writer == before.Writer || after.Seq != 1 {
		t.Error("the new evidence would be taken for the old")
	}
	if len(after.Slots) != 1 || after.Slots[0].Live != 1 || after.Slots[0].Tally != (evidence.Tally{}) || len(after.Slots[0].Ticks) != 0 {
		t.Errorf("slots %+v, want a live minute and nothing else", after.Slots)
	}
	for kind := range after.Keys {
		if len(after.Keys[kind])+len(after.Tops[kind]) > 0 {
			t.Errorf("%s keys: %v, most frequent %v, want none",
				evidence.KeyKind(kind), after.Keys[kind], after.Tops[kind])
		}
	}
	if n := r.Totals().Outcomes[evidence.NewlyDenied]; n != 2 {
		t.Errorf("the totals have %d newly denied, want 2", n)
	}
}

// While there is no ledger, a recorder keeps the last hours. Then it writes them in batches that do not block Redis for long.
func TestHoursThatWaitAreBounded(t *testing.T) {
	r := evidence.NewRecorder(nil)
	now := noon
	for range 12 * 60 {
		now = now.Add(time.Minute)
		r.Observe("k", 7, now, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1, Enforced: algorithms.Candidate})
		r.Present(now)
	}

	var minutes, ticks int
	for r.Changed() {
		b := r.Batch(now, false)
		for i := range b.Slots {
			minutes++
			ticks += len(b.Slots[i].Ticks)
		}
		if n := len(b.Slots); n > 30 {
			t.Errorf("a batch has %d slots", n)
		}
		r.Written(b)
	}
	if minutes != 121 || ticks != 120 {
		t.Errorf("%d minutes and %d ticks wait, want those of two hours, and 120", minutes, ticks)
	}
}

// A batch that may not be written is repeated as it is, and what is counted meanwhile comes with the next one.
func TestBatchesAreRepeated(t *testing.T) {
	r := evidence.NewRecorder(nil)
	observe := func() { r.Observe("k", 7, noon, observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1}) }
	observe()
	first := r.Batch(noon, false)
	observe()

	later := noon.Add(time.Minute)
	second := r.Batch(later, true)
	if second != first || second.Slots[0].Tally[evidence.AgreeAllow] != 1 || second.Until != noon {
		t.Errorf("after %+v follows %+v, want the same", first, second)
	}
	r.Written(second)
	third := r.Batch(later, false)
	if n := third.Slots[0].Tally[evidence.AgreeAllow]; n != 1 || third.Seq != 2 || third.Until != later {
		t.Errorf("%d comparisons in batch %d until %s, want 1 in batch 2", n, third.Seq, third.Until)
	}
}
