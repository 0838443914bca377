package shadow

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Comparison is one charge as both sides judged it, for a recording of your own.
type Comparison struct {
	Policy, Key string
	Cost        int64
	// At is the instant judged, by the clock that evidence is read by.
	At time.Time
	// Enforced is the side that was obeyed, unless it failed.
	Enforced algorithms.Role
	Outcome  divergence.Outcome
	// Observed is what the sides answered, by role. A side that was not judged has
	// an error, as one has that failed.
	Observed [2]algorithms.Observation
}

// Differs reports whether the comparison says something against the candidate.
func (c *Comparison) Differs() bool {
	switch c.Outcome {
	case divergence.NewlyDenied, divergence.NewlyAllowed, divergence.CandidateError:
		return true
	}
	return false
}

// tell calls the observer, whose panics are its own.
func (h *hit) tell(c *algorithms.Charge, at time.Time, o *[2]algorithms.Observation, outcome divergence.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			h.complainOnce(&h.observerFailed, "shadowlimit: the observer panics", "policy", c.Policy, "panic", fmt.Sprint(p))
		}
	}()
	h.observer(Comparison{Policy: c.Policy, Key: c.Key, Cost: c.Cost, At: at, Enforced: c.Enforced, Outcome: outcome, Observed: *o})
}
