package evidence

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Cause is the probable reason why two sides differ. It is guessed from both sides' limits and shapes and from the
// answer of the side that allows; TestCauses says how good the guess is.
type Cause int

const (
	// WindowBoundary: a window of one side has ended, and the other side still counts the requests in it.
	WindowBoundary Cause = iota
	// BurstShape: a bucket allows less at once, or more over a window, than the other.
	BurstShape
	// LimitValue: one side's limit is lower, and is used up.
	LimitValue
	// StoreLag: the sides are equal, but in two stores, and judged at slightly different instants.
	StoreLag
	// ColdState: the side that allows lacks what the other side has counted.
	ColdState
	// OtherCause: a side is custom and does not say how it forgets.
	OtherCause
	// SyncLag: the sides are equal, but one learns of other instances only when it is synchronized.
	SyncLag
	// PerProcess: one side is custom and has a budget in each instance, the other one has one for all. It is the last one: the
	// ledger has causes by their number.
	PerProcess
	causes = iota
)

// AllCauses are all causes in the order of their documentation.
var AllCauses = [causes]Cause{WindowBoundary, BurstShape, LimitValue, StoreLag, ColdState, OtherCause, SyncLag, PerProcess}

var causeNames = [causes]string{
	"window_boundary", "burst_shape", "limit_value", "store_lag", "cold_state", "other", "sync_lag", "per_process",
}

// String returns the name as in metrics.
func (c Cause) String() string { return causeNames[c] }

// Setting describes a comparison, besides the answers: limits and shapes by role, and the stage in which it was made.
type Setting struct {
	Expected algorithms.Expected
	// Cost is the check's. A peek, of cost 0, is allowed by both sides: it is a decision and no comparison. A client could
	// dilute every ratio with such checks.
	Cost   int64
	Limits [2]algorithms.Limit // by role
	Shapes [2]algorithms.Shape
	// Stores says how far the sides lie apart.
	Stores Distance
	// PerProcess says of each side that every instance has such a budget of its own.
	PerProcess [2]bool
	// Enforced is the side whose decision was to be returned.
	Enforced algorithms.Role
	// Completed reports that the migration is completed: only the candidate is judged, and there is nothing to compare.
	Completed bool
	// Protected reports that the policy protects the key.
	Protected bool
	// Apart reports that the sides share no record, so that a check can reach one of them only.
	Apart bool
	// First reports that there is no authoritative: the candidate is a first limit.
	First bool
	// Window is how long a state may depend on one check: the longer one of the sides.
	Window time.Duration
	// Young reports that a side lives in this process, which is younger than a window. Only
	// the decisions are counted then.
	Young bool
}

// Counts reports whether a check is a comparison that is counted: see Recorder.Observe.
func (s *Setting) Counts(o *[2]algorithms.Observation) bool {
	return s.compares(o) && !s.Young
}

func (s *Setting) compares(o *[2]algorithms.Observation) bool {
	return o[algorithms.Candidate].Status != algorithms.NotAsked && !s.Completed && s.Cost != 0 && !o[0].Blocked && !o[1].Blocked
}

// disturbs reports whether there is anything to count in a Disturbance: of sides that share a record there hardly ever is.
func (s *Setting) disturbs(o *[2]algorithms.Observation) bool {
	// No record of the other side can miss a check.
	if s.First {
		return false
	}
	if s.Apart || !o[0].Lost && !o[1].Lost && o[0].Status == o[1].Status {
		return s.Apart
	}
	_, _, oneSided := missed(o, false)
	return oneSided
}

// Distance is how far two sides lie apart.
type Distance uint8

const (
	OneStore     Distance = iota
	TwoStores             // each is judged at an instant of its own
	Synchronized          // and one learns of other instances behind their decisions
)

// Cause guesses the cause of a difference, NewlyDenied or NewlyAllowed. The first rule that fits decides.
func (s *Setting) Cause(o *[2]algorithms.Observation, outcome Outcome) Cause {
	denies, allows := algorithms.Candidate, algorithms.Authoritative
	if outcome == NewlyAllowed {
		denies, allows = allows, denies
	}

	if s.First {
		return LimitValue
	}

	// All rules below compare how two sides forget, and without a shape that is not known.
	if s.Shapes[denies] == algorithms.UnknownShape || s.Shapes[allows] == algorithms.UnknownShape {
		// Two limiters that both count in each instance see the same requests: they differ for a reason of their own.
		if s.PerProcess[denies] != s.PerProcess[allows] {
			return PerProcess
		}
		return OtherCause
	}

	// Lost state and a lower limit explain a difference between any two shapes, so they come first. Whatever is left of
	// two windows of different shapes differs at their ends.
	switch d := &o[allows].Decision; {
	// A synchronized side may have heard of any part of the counts.
	case s.Stores == Synchronized && s.Shapes[denies] == s.Shapes[allows] && s.Limits[denies] == s.Limits[allows]:
		return SyncLag
	case s.cold(d, allows, denies):
		return ColdState
	case s.lower(d, allows, denies):
		return LimitValue
	case s.Shapes[denies] == algorithms.Bucket || s.Shapes[allows] == algorithms.Bucket:
		return s.bucketCause(allows, denies)
	case s.Stores != OneStore && s.Shapes[denies] == s.Shapes[allows] && s.Limits[denies].Window == s.Limits[allows].Window:
		return StoreLag
	}

	return WindowBoundary
}

// cold reports whether the side that allows was unused, although it remembers at least as long as the other side, which
// denies and therefore was used. If both are equal, one that has counted less than half of its limit has lost the rest.
func (s *Setting) cold(d *algorithms.Decision, allows, denies algorithms.Role) bool {
	if s.Limits[0] == s.Limits[1] && s.Shapes[0] == s.Shapes[1] {
		return 2*(d.Capacity-d.Remaining) < d.Capacity
	}

	// A side that was unused has everything left but the cost of this check. A limit of 0 denies whatever was counted.
	if d.Remaining+s.Cost != d.Capacity || s.Limits[denies].Requests == 0 {
		return false
	}

	// The side that denies has forgotten nearly everything after one window. A counter remembers for two, and a bucket of a
	// large burst for longer; a cause is a hint.
	forgets := s.Limits[denies].Window
	switch l := s.Limits[allows]; s.Shapes[allows] {
	case algorithms.AlignedWindow:
		return l.Window-d.ResetAfter >= forgets // it remembers since its window began
	case algorithms.AnchoredWindow:
		return false // its window may just have ended
	case algorithms.SlidingLog, algorithms.SlidingCounter:
		return l.Window >= forgets
	case algorithms.Bucket:
		return time.Duration(float64(l.Capacity())*float64(l.Window)/float64(l.Requests)) >= forgets
	}

	// How long a limiter of another shape remembers is not known: a test asks for a row of causeCases for each shape.
	return false
}

// lower reports whether the limit of the side that denies, converted to the window of the side that allows, is lower
// than what the latter has counted.
func (s *Setting) lower(d *algorithms.Decision, allows, denies algorithms.Role) bool {
	a, b := s.Limits[allows], s.Limits[denies]
	converted := float64(b.Requests) * float64(a.Window) / float64(b.Window)

	// A limit that is as high for the same time cannot be why its side denies more.
	if converted >= float64(a.Requests) {
		return false
	}

	// A bucket drains all the time, so its count is less than the cost that it has allowed within the window: the rates decide.
	return s.Shapes[allows] == algorithms.Bucket || float64(d.Capacity-d.Remaining) > converted
}

// bucketCause distinguishes, where a side is a bucket, its burst from its memory of the time before a window's end.
func (s *Setting) bucketCause(allows, denies algorithms.Role) Cause {
	a, b := s.Limits[allows], s.Limits[denies]

	// Two buckets differ by their capacity, their store or their rate. A bucket and a window differ by the burst,
	// unless the bucket would allow the window's whole limit at once.
	switch {
	case s.Shapes[denies] == s.Shapes[allows] && a.Capacity() != b.Capacity():
		return BurstShape
	case s.Shapes[denies] == s.Shapes[allows] && a.Requests == b.Requests && a.Window == b.Window:
		return StoreLag
	case s.Shapes[denies] == s.Shapes[allows]:
		return LimitValue
	case s.Shapes[denies] == algorithms.Bucket && b.Capacity() >= a.Requests:
		return WindowBoundary // it allows as much at once, but still counts earlier requests
	}

	return BurstShape
}

// Causes count differences by their cause.
type Causes struct{ Denied, Allowed [causes]int64 }

// add joins what another observer counted. Each difference has one cause, so sums stay exact.
func (c *Causes) add(other *Causes) {
	for i := range c.Denied {
		c.Denied[i] += other.Denied[i]
		c.Allowed[i] += other.Allowed[i]
	}
}

// count counts a difference. Declared differences are wanted, so nothing is to be found out about them.
func (c *Causes) count(outcome Outcome, cause Cause) {
	switch outcome {
	case NewlyDenied:
		c.Denied[cause]++
	case NewlyAllowed:
		c.Allowed[cause]++
	}
}

// Mend says what makes the sides alike.
func (c *Causes) Mend() string {
	var each, all int64
	for _, counts := range [][causes]int64{c.Denied, c.Allowed} {
		each += counts[PerProcess]
		for _, n := range counts {
			all += n
		}
	}

	// A candidate that is sound for the fleet is not what is wrong.
	if 2*each > all {
		return "one side has a budget in each instance and the other one has one for all, so give the candidate the sum of the instances' limits"
	}
	return "change the candidate"
}
