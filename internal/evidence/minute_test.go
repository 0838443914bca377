package evidence

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A minute remembers the key of each outcome that is in the numerator of a ratio, and of no other.
func TestMinuteSamplesEveryDifference(t *testing.T) {
	for o := range Outcome(outcomes) {
		var m Minute
		m.Count(o, 7)
		for r := range m.Keys {
			if got, want := len(m.Keys[r]) == 1, Ratio(r).counts(o); got != want {
				t.Errorf("%s: the sample %d has the key: %t, want %t", o, r, got, want)
			}
		}
	}
}

// A clock that is wrong can say the first minute of all, or one before it, also when a batch has taken all minutes.
func TestMinutesBeforeTheEpochAreCounted(t *testing.T) {
	o := [2]algorithms.Observation{{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, {Status: algorithms.Judged}}
	r, setting := NewRecorder(nil), &Setting{Cost: 1}
	for _, at := range []time.Time{{}, time.Unix(0, 0)} {
		r.Observe("k", 7, at, &o, setting)
		r.Written(r.Batch(time.Unix(0, 0), true))
		r.Observe("k", 7, at, &o, setting)
	}

	if got := r.Totals().Outcomes[NewlyDenied]; got != 4 {
		t.Errorf("%d newly denied, want 4", got)
	}
}
