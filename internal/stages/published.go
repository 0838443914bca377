package stages

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Findings are what a leader publishes of one round.
type Findings struct {
	// At is when it read the evidence, by the store's clock, and By the leader's id.
	At       time.Time
	By       string
	Policies []Published
	// Levels are those of adaptive limits, by the key of their rule; nil leaves what is published.
	Levels map[string]adaptive.State
}

// Published is an assessment as the leader publishes it for the others: all that metrics and a report
// need, and nothing that grows with the history.
type Published struct {
	Policy string `json:"policy"`
	Leader string `json:"leader"`
	// Version, Fingerprint and Since are of the state that was evaluated.
	Version     Version   `json:"version"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
	// Evidence has the sums of its history only; Evidence.Now is when it was read.
	Evidence  gate.Evidence `json:"evidence"`
	Silent    int           `json:"silent,omitempty"` // instances
	Gate      gate.Result   `json:"gate"`
	Alarm     gate.Alarm    `json:"alarm"`
	Next      *Next         `json:"next,omitempty"`
	LostUntil time.Time     `json:"lost_until,omitzero"`
	// Details are stored apart, because only reports read them. nil leaves those of before.
	Details *Details `json:"-"`
}

// Details are the part of an assessment that only a report needs.
type Details struct {
	TopNewlyDenied  []evidence.KeyCount `json:"top_newly_denied"`
	TopNewlyAllowed []evidence.KeyCount `json:"top_newly_allowed"`
}

// PublishedOf returns what a leader publishes of an assessment.
func PublishedOf(a *Assessment, leader string) Published {
	p := Published{
		Policy: a.Spec.Policy, Leader: leader,
		Version: a.Evaluated, Fingerprint: a.State.Fingerprint, Since: a.State.Since,
		Evidence: a.Evidence, Silent: len(a.Silent),
		Gate: a.Gate, Alarm: a.Alarm, Next: a.Next, LostUntil: a.LostUntil,
	}
	p.Evidence.History = a.Evidence.History.Sum()
	return p
}

// Of reports whether this was found of the evidence that a state has.
func (p *Published) Of(s *State) bool { return p.Leader != "" && s.counts(p.Fingerprint, p.Since) }

// Assessment returns the assessment in a state of the same evidence.
func (p *Published) Assessment(spec Spec, s State) Assessment {
	a := Assessment{
		Spec: spec, Evaluated: p.Version, Evidence: p.Evidence, Gate: p.Gate, Alarm: p.Alarm, Next: p.Next, LostUntil: p.LostUntil,
		Origin: Origin{Leader: p.Leader, Details: p.Details, SilentThen: p.Silent},
	}
	a.MoveTo(s)
	return a
}
