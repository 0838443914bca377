package divergence

import "github.com/shadowlimit/shadowlimit/algorithms"

// Reason is why a side was not judged, and its comparison is inconclusive.
type Reason int

const (
	QueueFull   Reason = iota // no room behind the request
	BreakerOpen               // the side failed again and again
	Overload                  // the enforced side was judged alone, to spare the store
	MemoryFull                // the key shared a bucket with others
	OtherReason
	reasons = iota
)

var reasonNames = [reasons]string{"queue_full", "breaker_open", "overload", "memory_full", "other"}

// String returns the name as in metrics.
func (r Reason) String() string { return reasonNames[r] }

// Skipped is the error of a side that was not judged.
type Skipped struct{ Reason Reason }

// Error implements error.
func (s *Skipped) Error() string { return "divergence: the side was skipped: " + s.Reason.String() }

var skips = func() (list [reasons]*Skipped) {
	for r := range list {
		list[r] = &Skipped{Reason(r)}
	}
	return list
}()

// Skip returns the observation of a side that was not judged.
func Skip(r Reason) algorithms.Observation { return algorithms.Observation{Err: skips[r]} }

// IsSkipped reports whether an error is that of a side that was not judged.
func IsSkipped(err error) bool {
	_, skipped := err.(*Skipped)
	return skipped
}

// reasonOf returns why a comparison is inconclusive.
func reasonOf(o *[2]algorithms.Observation) Reason {
	for role := range o {
		if s, ok := o[role].Err.(*Skipped); ok {
			return s.Reason
		}
	}
	if o[0].Degraded || o[1].Degraded {
		return MemoryFull
	}
	return OtherReason
}
