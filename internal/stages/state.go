package stages

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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

// Unreadable reports whether the state stands for one that Redis has, and which cannot be read.
func (s State) Unreadable() bool { return s.Reason == unreadableReason && s.At.IsZero() }

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

// Colored gives a stage, as Describe writes it, its colour: a candidate that was taken back has ended badly.
func Colored(colors humanize.Colors, stage string) string {
	if strings.HasPrefix(stage, string(RolledBack)) {
		return colors.Bad(stage)
	}
	return stage
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

// Next returns the step after a state: the canary's rising percentages, then promoted.
func (s State) Next(canary []float64) (Step, error) {
	switch s.Stage {
	case Promoted:
		return Step{}, fmt.Errorf("stages: the candidate is promoted; the next move is complete: %w", ErrNowhere)
	case Completed:
		return Step{}, fmt.Errorf("stages: the migration is completed: %w", ErrNowhere)
	case RolledBack:
		return Step{}, fmt.Errorf("stages: the candidate is rolled back; shadowlimit resume begins again: %w", ErrNowhere)
	}

	for _, percent := range canary {
		if percent > s.Percent {
			return Step{Canary, percent}, nil
		}
	}
	return Step{Stage: Promoted}, nil
}

// Undone returns how the last fingerprint left whose canary or promotion another policy file has ended, and which would
// return if its file did; nil if there is none, or the policy has gone on since.
func (s *State) Undone() *Past {
	if s.Stage != Shadow {
		return nil
	}
	for i := len(s.Past) - 1; i >= 0; i-- {
		if p := &s.Past[i]; p.Stage.Exposed() && p.Term == s.Term {
			return p
		}
	}
	return nil
}

// Of returns the stage that a fingerprint has in this state, whether it is the stored one or one of
// the past; "" for one that is not known.
func (s *State) Of(fingerprint string) Stage {
	if s.Fingerprint == fingerprint {
		return s.Stage
	}
	return s.past(fingerprint).Stage
}

// past returns how a fingerprint left, the zero Past for one that is not known.
func (s *State) past(fingerprint string) Past {
	if i := slices.IndexFunc(s.Past, func(p Past) bool { return p.Fingerprint == fingerprint }); i >= 0 {
		return s.Past[i]
	}
	return Past{}
}

// With returns the state that would take over from this one if another fingerprint were stored now.
func (s State) With(fingerprint string, now time.Time) State {
	return replacedBy(s, fingerprint, 0, Order{}, now)
}

// Supersedes reports whether s takes the place of other: its version is newer, or the
// same and its stage safer, its evidence older, or its fingerprint smaller. States arrive late,
// twice and in any order; instances that apply only states that supersede their own all end
// with the same one.
func (s State) Supersedes(other State) bool { return s.compare(other) > 0 }

// is reports whether a state that was read is the stored one. A state that could not be
// read has only its version.
func (s State) is(stored State) bool {
	if s.Fingerprint == "" {
		return s.Version == stored.Version
	}
	return s.compare(stored) == 0
}

// compare orders all states. The beginning and the fingerprint tell states apart that two
// instances made of nothing, each for itself, after the store had lost its data.
func (s State) compare(other State) int {
	return cmp.Or(
		cmp.Compare(s.Term, other.Term),
		cmp.Compare(s.Seq, other.Seq),
		cmp.Compare(safety(s), safety(other)),
		other.Since.Compare(s.Since),
		cmp.Compare(other.Fingerprint, s.Fingerprint),
	)
}

// Equal reports whether two states are alike in everything. Instants are compared as such,
// whatever their zones.
func (s State) Equal(other State) bool { return reflect.DeepEqual(s.inUTC(), other.inUTC()) }

// inUTC returns the state as a store returns it: instants in UTC, and no empty lists.
func (s State) inUTC() State {
	for _, at := range []*time.Time{&s.Since, &s.StageAt, &s.At} {
		*at = at.Round(0).UTC()
	}

	s.Unwell = append([]time.Time(nil), s.Unwell...)
	for i := range s.Unwell {
		s.Unwell[i] = s.Unwell[i].Round(0).UTC()
	}

	s.Past = append([]Past(nil), s.Past...)
	for i := range s.Past {
		s.Past[i].Since, s.Past[i].Left = s.Past[i].Since.Round(0).UTC(), s.Past[i].Left.Round(0).UTC()
	}
	return s
}

// maxNumber bounds the terms and sequences that a store may hold. The script compares
// numbers of 53 bits, and a corrupt term at the end of the range would leave no room for a
// rollback.
const maxNumber = 1 << 52

// onHold is half of a hundredth of a percent in safety. Keys are divided by hundredths, so a hold is less
// than the difference of any two steps with different keys, unless the steps are finer than a hundredth.
const onHold = 5

// safety ranks states of one version, in millionths: the safer one wins, and of two stages that are
// alike the one on hold. Whole numbers make an instance and the script agree where steps are too fine
// for them: such states are equally safe.
func safety(s State) int64 {
	if s.Hold {
		s.Hold = false
		return safety(s) + onHold
	}

	switch s.Stage {
	case RolledBack:
		return 5_000_000
	case Canary:
		return 3_000_000 - int64(math.Round(min(max(s.Percent, 0), 100)*1000)) // a corrupt state may have any number
	case Promoted:
		return 2_000_000
	case Completed:
		return 1_000_000
	}
	return 4_000_000
}

// safetyText is the safety as the script compares it, with six digits behind the point.
func safetyText(s State) string { return fmt.Sprintf("%d.%06d", safety(s)/1e6, safety(s)%1e6) }

// sinceText writes the beginning of the evidence, so that texts are in the order of time:
// with its Z, a time of a whole second would come after one with a fraction.
func sinceText(s State) string {
	text := s.Since.UTC().Format(time.RFC3339Nano)
	return text[:len(text)-1]
}
