package divergence

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Cause is what made two sides differ, as far as their answers tell. It is a guess:
// docs/causes.md says how good a one.
type Cause int

const (
	// WindowBoundary: a window of one side has ended, and the other still counts what
	// was in it.
	WindowBoundary Cause = iota
	// BurstShape: a bucket allows less at once, or more over a window, than the other.
	BurstShape
	// LimitValue: one side's limit is lower, and is used up.
	LimitValue
	// StoreLag: the sides are alike, but in two stores.
	StoreLag
	// ColdState: the side that allows does not know of what the other has counted.
	ColdState
	// OtherCause: a limiter of the user's own, or what no rule knows.
	OtherCause
	causes = iota
)

// AllCauses are all causes in the order of their documentation.
var AllCauses = [causes]Cause{WindowBoundary, BurstShape, LimitValue, StoreLag, ColdState, OtherCause}

var causeNames = [causes]string{"window_boundary", "burst_shape", "limit_value", "store_lag", "cold_state", "other"}

// String returns the name as in metrics.
func (c Cause) String() string { return causeNames[c] }

// Setting is what is known of a comparison besides the answers.
type Setting struct {
	Expected algorithms.Expected
	Cost     int64
	Limits   [2]algorithms.Limit // by role
	Shapes   [2]algorithms.Shape
	// SeparateStores reports that the sides keep their state in two stores.
	SeparateStores bool
	// Enforced is who was to be obeyed.
	Enforced algorithms.Role
	// Cell is the part of the keys that the key belongs to.
	Cell int
	// Completed reports that the migration is completed: only the candidate is judged, and there is nothing to compare.
	Completed bool
	// Warming reports that a side may not know yet what has been spent.
	Warming bool
}

// cause judges a difference: NewlyDenied or NewlyAllowed.
func (s *Setting) cause(o *[2]algorithms.Observation, outcome Outcome) Cause {
	denies, allows := algorithms.Candidate, algorithms.Authoritative
	if outcome == NewlyAllowed {
		denies, allows = allows, denies
	}
	if s.Shapes[denies] == algorithms.UnknownShape || s.Shapes[allows] == algorithms.UnknownShape {
		return OtherCause
	}
	switch d := &o[allows].Decision; {
	case s.cold(d, allows, denies):
		return ColdState
	case s.lower(d, allows, denies):
		return LimitValue
	case s.Shapes[denies] == algorithms.Bucket || s.Shapes[allows] == algorithms.Bucket:
		return s.bucketCause(allows, denies)
	case s.SeparateStores && s.Shapes[denies] == s.Shapes[allows] && s.Limits[denies].Window == s.Limits[allows].Window:
		return StoreLag
	}
	return WindowBoundary
}

// cold reports whether the side that allows was unused, although it remembers at
// least as long as the other, which is not. Of two that are alike, one that knows of
// less than half has lost the rest.
func (s *Setting) cold(d *algorithms.Decision, allows, denies algorithms.Role) bool {
	if s.Limits[0] == s.Limits[1] && s.Shapes[0] == s.Shapes[1] {
		return 2*(d.Limit-d.Remaining) < d.Limit
	}
	if d.Remaining+s.Cost != d.Limit {
		return false
	}
	forgets := s.Limits[denies].Window // the other's, at the latest
	switch l := s.Limits[allows]; s.Shapes[allows] {
	case algorithms.AlignedWindow: // it can know of what has happened since its window began
		return l.Window-d.ResetAfter >= forgets
	case algorithms.AnchoredWindow:
		return false // its window may just have ended
	case algorithms.SlidingLog, algorithms.SlidingCounter:
		return l.Window >= forgets
	case algorithms.Bucket:
		refill := time.Duration(float64(l.Capacity()) * float64(l.Window) / float64(l.Requests))
		return refill >= forgets
	}

	// How long a limiter of another shape remembers is not known: a test asks for a row
	// of causeCases for each shape.
	return false
}

// lower reports whether the other side's limit, taken over the same time, is lower
// than what has been used.
func (s *Setting) lower(d *algorithms.Decision, allows, denies algorithms.Role) bool {
	a, b := s.Limits[allows], s.Limits[denies]
	others := float64(b.Requests) * float64(a.Window) / float64(b.Window)
	if others >= float64(a.Requests) {
		return false
	}
	return s.Shapes[allows] == algorithms.Bucket || float64(d.Limit-d.Remaining) > others
}

// bucketCause tells a bucket's burst from its memory of before a window's end.
func (s *Setting) bucketCause(allows, denies algorithms.Role) Cause {
	a, b := s.Limits[allows], s.Limits[denies]
	switch {
	case s.Shapes[denies] == s.Shapes[allows] && a.Capacity() != b.Capacity():
		return BurstShape
	case s.Shapes[denies] == s.Shapes[allows] && a == b:
		return StoreLag
	case s.Shapes[denies] == s.Shapes[allows]:
		return LimitValue
	case s.Shapes[denies] == algorithms.Bucket && b.Capacity() >= a.Requests:
		return WindowBoundary // it allows as much at once, but still counts what was before
	}
	return BurstShape
}
