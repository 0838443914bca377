package shadow

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Comparison is one charge and what became of its sides, for your own records. An observer may
// keep it, but must copy the Key: its memory may be part of a request's buffer.
type Comparison struct {
	Policy, Key string
	Cost        int64 // units
	// At is the instant by the clock that evidence is read by: the clock of the service's
	// own Redis or, without one, of this process. Config.Clock does not change it.
	At time.Time
	// Enforced is the side whose decision was returned, unless it failed.
	Enforced algorithms.Role
	Outcome  evidence.Outcome
	// Observed is what became of the sides, by role. Only a side whose Status is Judged
	// has a decision.
	Observed [2]algorithms.Observation
}

// Differs reports whether the comparison is evidence against the candidate.
func (c *Comparison) Differs() bool {
	switch c.Outcome {
	case evidence.NewlyDenied, evidence.NewlyAllowed, evidence.CandidateError:
		return true
	}
	return false
}

// notify calls the observer. Its panic must not reach the request.
func (ev *evaluation) notify(c *algorithms.Charge, at time.Time, o *observations, outcome evidence.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			ev.progress.warnLimited(&ev.progress.counts.warned.observerFailed,
				"shadowlimit: the observer panics; comparisons are counted all the same",
				"policy", c.Policy, "panic", fmt.Sprint(p))
		}
	}()

	ev.observer(Comparison{
		Policy: c.Policy, Key: c.Key, Cost: c.Cost, At: at,
		Enforced: c.Enforced, Outcome: outcome, Observed: *o,
	})
}
