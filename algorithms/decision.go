package algorithms

import (
	"math"
	"time"
)

// Never is the RetryAfter of a cost that the limit can never admit.
const Never time.Duration = math.MaxInt64

// Decision is one limiter's answer to one check. Its times are waits that
// count from the instant of the check, rounded up to whole microseconds.
type Decision struct {
	// Allowed reports whether the check may proceed.
	Allowed bool
	// Capacity is the capacity: the largest cost that an unused key admits.
	Capacity int64
	// Remaining is the largest cost that would be allowed now, after this
	// decision; -1 where a custom limiter does not tell.
	Remaining int64
	// RetryAfter is 0 if allowed, else the exact wait after which the same cost
	// is allowed if nothing is spent in between, or Never.
	RetryAfter time.Duration
	// ResetAfter is the least wait until the key is as if it had never been
	// used; 0 if it is so already.
	ResetAfter time.Duration
	// Delay is how long an algorithm that delays (Traits.Delays) holds an admitted check
	// before its turn; 0 for others. A leaky bucket's backlog of 100 tokens at 60 per
	// minute makes 100 s.
	Delay time.Duration
}

// wait turns a count of microseconds into a duration.
func wait(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
