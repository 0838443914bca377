package divergence_test

import (
	"slices"
	"testing"
	"time"

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
		r.Observe("k", 7, noon, observed(outcome), &divergence.Setting{})

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
	declared := &divergence.Setting{Expected: algorithms.Expected{NewlyAllowed: true, NewlyDenied: true}}
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
			r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{})
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
			r.Observe("k", oneStripe(round*5000+n), noon, observed(divergence.AgreeAllow), &divergence.Setting{})
		}

		got := len(r.Snapshot(noon).Keys[divergence.KeysSeen])
		if want := min((round+1)*4096, 64*1024); got != want {
			t.Errorf("after %d failed writes %d hashes wait, want %d", round, got, want)
		}
		r.Abandon(noon)
	}
}

// An observation that arrives after its hour was closed counts in the oldest open hour: writing the closed hour again
// would replace it by one with less in it.
func TestLateObservationsLeaveClosedHoursAlone(t *testing.T) {
	r := divergence.NewRecorder(nil)
	r.Observe("k", 7, noon, observed(divergence.AgreeAllow), &divergence.Setting{})
	later := noon.Add(2 * time.Hour)
	r.Commit(r.Snapshot(later), later)

	r.Observe("k", 7, noon, observed(divergence.NewlyDenied), &divergence.Setting{})
	var late int64
	for _, h := range r.Snapshot(later).Hours {
		if h.Unix < later.Unix()/divergence.SecondsPerHour-1 {
			t.Errorf("hour %d is written again", h.Unix)
		}
		for _, m := range h.Minutes {
			late += m.Tally[divergence.NewlyDenied]
		}
	}
	if late != 1 {
		t.Errorf("the late observation is counted %d times, want once", late)
	}
}

func TestCompletedMigrationsAreNotCompared(t *testing.T) {
	r := divergence.NewRecorder(nil)
	r.Observe("k", 7, noon, observed(divergence.Inconclusive), &divergence.Setting{Completed: true})

	totals := r.Totals()
	if totals.Outcomes != (divergence.Tally{}) || totals.Decisions[algorithms.Authoritative].Allowed != 1 {
		t.Errorf("outcomes %v, decisions %+v, want the decision alone", totals.Outcomes, totals.Decisions)
	}
}

// The fast triggers see the keys for which the candidate is enforced, unless it may not know yet what they have spent.
func TestTicksAreOfEnforcedCandidates(t *testing.T) {
	tests := []struct {
		name    string
		setting divergence.Setting
		want    int
	}{
		{"in shadow", divergence.Setting{}, 0},
		{"enforced", divergence.Setting{Enforced: algorithms.Candidate}, 1},
		{"enforced, but warming", divergence.Setting{Enforced: algorithms.Candidate, Warming: true}, 0},
	}

	for _, tt := range tests {
		r := divergence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(divergence.NewlyDenied), &tt.setting)
		if got := len(r.Snapshot(noon).Ticks); got != tt.want {
			t.Errorf("%s: %d ticks, want %d", tt.name, got, tt.want)
		}
	}
}
