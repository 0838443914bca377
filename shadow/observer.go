package shadow

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
)

// Comparison is one check and what became of its sides, for your own records. An observer may
// keep it, but must copy the Key: its memory may be part of a request's buffer.
type Comparison struct {
	Policy, Key string
	Cost        int64 // units
	// At is the instant by the clock that evidence is read by: the clock of the service's
	// own Redis or, without one, of this process. Config.Clock does not change it.
	At time.Time
	// Enforced is the side whose decision was returned, unless it failed.
	Enforced algorithms.Role
	Outcome  Outcome
	// Observed is what became of the sides, by role. Only a side whose Status is Judged
	// has a decision.
	Observed [2]algorithms.Observation
}

// Outcome is how the answers of the two sides relate, as in metrics.
type Outcome string

// The outcomes. The last two are differences that the policy expects.
const (
	AgreeAllow           Outcome = "agree_allow"
	AgreeDeny            Outcome = "agree_deny"
	NewlyDenied          Outcome = "newly_denied"  // the authoritative allows, the candidate denies
	NewlyAllowed         Outcome = "newly_allowed" // the authoritative denies, the candidate allows
	CandidateError       Outcome = "candidate_error"
	AuthoritativeError   Outcome = "authoritative_error"
	Inconclusive         Outcome = "inconclusive" // a side was skipped or degraded, or another policy of its list denies
	ExpectedNewlyDenied  Outcome = "expected_newly_denied"
	ExpectedNewlyAllowed Outcome = "expected_newly_allowed"
)

// Differs reports whether the comparison is evidence against the candidate.
func (c *Comparison) Differs() bool {
	switch c.Outcome {
	case NewlyDenied, NewlyAllowed, CandidateError:
		return true
	}
	return false
}

// observed returns what the engine calls for an observer, nil without one.
func observed(observer func(Comparison)) func(*engine.Comparison) {
	if observer == nil {
		return nil
	}
	return func(c *engine.Comparison) {
		observer(Comparison{
			Policy: c.Policy, Key: c.Key, Cost: c.Cost, At: c.At, Enforced: c.Enforced, Outcome: Outcome(c.Outcome.String()), Observed: c.Observed,
		})
	}
}
