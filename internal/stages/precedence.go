package stages

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"time"
)

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
func (s State) safety() int64 {
	if s.Hold {
		s.Hold = false
		return s.safety() + onHold
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
func (s State) safetyText() string { return fmt.Sprintf("%d.%06d", s.safety()/1e6, s.safety()%1e6) }

// sinceText writes the beginning of the evidence, so that texts are in the order of time:
// with its Z, a time of a whole second would come after one with a fraction.
func (s State) sinceText() string {
	text := s.Since.UTC().Format(time.RFC3339Nano)
	return text[:len(text)-1]
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
		cmp.Compare(s.safety(), other.safety()),
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
