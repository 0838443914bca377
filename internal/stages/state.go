package stages

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Stage is how far the candidate is.
type Stage string

// The stages, in the order of a migration.
const (
	Shadow     Stage = "shadow"      // the authoritative is enforced for all keys
	Canary     Stage = "canary"      // the candidate for some percent of the keys
	Promoted   Stage = "promoted"    // the candidate for all keys
	Completed  Stage = "completed"   // the same, and the authoritative is not judged any more
	RolledBack Stage = "rolled_back" // the authoritative for all keys again
)

// Stages are all stages, in the order of a migration.
var Stages = [...]Stage{Shadow, Canary, Promoted, Completed, RolledBack}

// Exposed reports whether the candidate is enforced for some keys while the authoritative is still judged beside it.
func (s Stage) Exposed() bool { return s == Canary || s == Promoted }

// Version orders the states of a policy. A rollback starts a new term.
type Version struct{ Term, Seq int64 }

// String writes the version as TERM.SEQ.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Term, v.Seq) }

// ParseVersion reads TERM.SEQ.
func ParseVersion(s string) (v Version, err error) {
	term, seq, found := strings.Cut(s, ".")
	if found {
		if v.Term, err = strconv.ParseInt(term, 10, 64); err == nil {
			v.Seq, err = strconv.ParseInt(seq, 10, 64)
		}
	}
	if !found || err != nil || v.Term < 0 || v.Seq < 0 {
		return Version{}, fmt.Errorf("stages: version %q: want TERM.SEQ, such as 1.4", s)
	}
	return v, nil
}

// Before reports whether v is older than other.
func (v Version) Before(other Version) bool {
	return cmp.Or(cmp.Compare(v.Term, other.Term), cmp.Compare(v.Seq, other.Seq)) < 0
}

// believed reports whether a version can be one: see maxNumber.
func (v Version) believed() bool {
	return v.Term >= 0 && v.Term <= maxNumber && v.Seq >= 0 && v.Seq <= maxNumber
}

// State is how far a policy is, and the last entry of its audit trail. The zero
// State is a policy that no instance has announced yet, in shadow.
type State struct {
	Version
	Stage Stage
	// Percent of the keys for which the candidate is enforced.
	Percent float64
	// Hold stops automatic steps forward. HeldForHealth says that it ends by itself once the
	// candidate has been well for an hour; Unwell are the instants of such holds within a day.
	Hold          bool
	HeldForHealth bool        `json:",omitempty"`
	Unwell        []time.Time `json:",omitempty"`
	// Fingerprint names what is compared: both sides and the key. It has no order. Since is when its evidence began.
	Fingerprint string
	Since       time.Time
	// Generation is the largest of the policy files seen with the fingerprint. A larger one takes over.
	Generation int64 `json:",omitempty"`
	// Past are the fingerprints that others took over from, at most keptPast, oldest first.
	Past []Past `json:",omitempty"`
	// StageAt is when the stage or its percentage began.
	StageAt time.Time
	// At, Actor and Reason say when, by which actor and why this state was written.
	At            time.Time
	Actor, Reason string
	// From describes the stage before.
	From string
	// Evidence is the gate's verdict when this state was written, in short.
	Evidence string `json:",omitempty"`
}

// LedgerID names the evidence of a policy in this state. A resumption begins new
// evidence of the same fingerprint, so the name has the beginning, too.
func (s State) LedgerID(policy string) evidence.ID {
	return evidence.ID{Policy: policy, Evidence: s.Fingerprint + "-" + strconv.FormatInt(s.Since.Unix(), 36)}
}

// counts reports whether evidence of a fingerprint, from a beginning on, is the evidence of this state.
func (s State) counts(fingerprint string, since time.Time) bool {
	return s.Fingerprint == fingerprint && s.Since.Equal(since)
}

// Describe writes the stage for operators: canary 10 %, shadow (hold), and new for the
// zero State.
func (s State) Describe() string {
	text := string(cmp.Or(s.Stage, "new"))
	if s.Stage == Canary {
		text += " " + strconv.FormatFloat(s.Percent, 'g', -1, 64) + " %"
	}
	if s.Hold {
		text += " (hold)"
	}
	return text
}

// String writes the version and the stage.
func (s State) String() string { return s.Version.String() + " " + s.Describe() }

// Enforced returns the side whose decision is returned for a key by an instance with a fingerprint. One with another
// than the stored one enforces the authoritative, or the candidate that it has completed: its authoritative was not judged since.
func (s *State) Enforced(fingerprint string, key evidence.Position) algorithms.Role {
	stage := s.Of(fingerprint)
	own := s.Fingerprint == fingerprint && (stage == Promoted || stage == Canary && key.InCanary(s.Percent))
	if own || stage == Completed {
		return algorithms.Candidate
	}
	return algorithms.Authoritative
}

// Share returns the percentage of the keys for which the candidate is enforced. Keys that the policy file places first or
// last are not in it.
func (s *State) Share() float64 {
	if s.Stage == Promoted || s.Stage == Completed {
		return 100
	}
	return s.Percent
}

// Exposed reports whether the candidate is enforced for some keys while the authoritative
// is still judged beside it.
func (s *State) Exposed() bool { return s.Stage.Exposed() }

// Name returns the enforced side for keys in general: "authoritative", "candidate" or, in a canary, "candidate for 10 % of
// the keys".
func (s *State) Name() string {
	switch s.Stage {
	case Canary:
		return fmt.Sprintf("candidate for %g %% of the keys", s.Share())
	case Promoted, Completed:
		return algorithms.Candidate.String()
	}
	return algorithms.Authoritative.String()
}
