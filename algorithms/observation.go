package algorithms

import (
	"fmt"
	"time"
)

// Observation is what became of one side of a check: its answer, or why there is
// none.
type Observation struct {
	// Status says what became of the side, and which of the fields below have a meaning.
	Status Status
	// Reason is why the side was not asked, if Status is Skipped. A side that has Failed has
	// the reason StoreFailed where not the limiter failed, but what keeps its state.
	Reason SkipReason
	// Decision is the side's answer. It is meaningful only if Status is Judged.
	Decision Decision
	// Err is set if and only if Status is Failed or Skipped. It puts into words why there
	// is no decision: the limit or the check was refused, the store did not answer, or the
	// side could not be asked. Code that has to know which of them reads Status.
	Err error
	// At is the instant at which the side was judged.
	At time.Time
	// Took is how long the store took to answer. It is 0 in memory, where measuring
	// would cost more than deciding.
	Took time.Duration
	// Degraded reports that the key shared an overflow bucket with others.
	Degraded bool
	// Lost reports that the side's state has lost checks that still count: an evicted log.
	Lost bool
	// Blocked reports that nothing was charged, whatever the answer, because the enforced side of another check denies that
	// is charged together with this one. Such answers are no comparison of the sides.
	Blocked bool
}

// Counts reports whether a check of that cost has changed what the side remembers of the key.
func (o *Observation) Counts(cost int64) bool { return cost > 0 && o.Decision.Allowed && !o.Blocked }

// Status is what became of one side of a check.
type Status uint8

const (
	NotAsked Status = iota // the zero value; the check may have no such side
	Judged                 // the side has decided
	Failed                 // the side was asked and has no decision
	Deferred               // the side is judged after the answer to the request
	Skipped                // the side should have been asked and was not, for a Reason
	statuses = iota
)

var statusNames = [statuses]string{"not_asked", "judged", "failed", "deferred", "skipped"}

// String returns the status in lower case.
func (s Status) String() string { return statusNames[s] }

// SkipReason is why a side was not asked, so that a comparison is inconclusive.
type SkipReason uint8

// The reasons. MemoryFull is the reason of a degraded answer: the side was asked, but the
// key shared a bucket with others.
const (
	OtherReason SkipReason = iota
	QueueFull              // no room in the asynchronous queue
	BreakerOpen            // the side failed again and again
	StoreFailed            // the side's store did not answer
	MemoryFull
	skipReasons = iota
)

// AllSkipReasons are all reasons, each at its own index.
var AllSkipReasons = [skipReasons]SkipReason{OtherReason, QueueFull, BreakerOpen, StoreFailed, MemoryFull}

var skipReasonNames = [skipReasons]string{"other", "queue_full", "breaker_open", "store_failed", "memory_full"}

// String returns the name as in metrics.
func (r SkipReason) String() string { return skipReasonNames[r] }

// The texts of sides that were skipped. No code compares with them.
var skipErrors = func() (list [skipReasons]error) {
	for r := range list {
		list[r] = fmt.Errorf("algorithms: the side was skipped: %s", SkipReason(r))
	}
	return list
}()

// Skip returns the observation of a side that should have been asked and was not.
func Skip(r SkipReason) Observation {
	return Observation{Status: Skipped, Reason: r, Err: skipErrors[r]}
}

// Failure returns the observation of a side that was asked and has no decision. The
// error must not be nil.
func Failure(err error) Observation { return Observation{Status: Failed, Err: err} }

// Check returns an error if the status contradicts the other fields.
func (o *Observation) Check() error {
	switch {
	case o.Status >= statuses:
		return fmt.Errorf("algorithms: observation: unknown status %d", o.Status)
	case (o.Status == Failed || o.Status == Skipped) != (o.Err != nil):
		return fmt.Errorf("algorithms: observation: status %s with the error %v", o.Status, o.Err)
	case o.Reason >= skipReasons:
		return fmt.Errorf("algorithms: observation: unknown reason %d", o.Reason)
	case o.Status != Skipped && o.Reason != 0 && (o.Status != Failed || o.Reason != StoreFailed):
		return fmt.Errorf("algorithms: observation: status %s with the reason %s", o.Status, o.Reason)
	}
	return nil
}
