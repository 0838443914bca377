package retry

import (
	"math"
	"time"
)

// Bounds are how often and how long a call is repeated. The zero value is ready to use.
type Bounds struct {
	// Attempts are the most that one call makes, with the first one. 0 means 4, 1 that nothing is repeated.
	Attempts int
	// MaxWait is the longest wait before one attempt. A server that asks for a longer one gets no further attempt: the call ends
	// with its answer. 0 means a minute.
	MaxWait time.Duration
	// Backoff and MaxBackoff bound the random part of a wait, which is uniform from 0 to the smaller of MaxBackoff and
	// Backoff times 2 to the power of the attempts that were repeated before ("full jitter"). It begins where the wait ends that the
	// server asks for. 0 means 1 s and 20 s, as in the SDKs of AWS.
	Backoff, MaxBackoff time.Duration
	// Budget is how many attempts may be repeats, as a share of the calls: 0.1 lets one of ten calls be repeated once,
	// beside a reserve of 10 repeats that calls fill again. A server that refuses everything then gets a tenth more attempts, and not
	// Attempts times as many. 0 means 0.1, and below 0 no call is repeated.
	Budget float64
}

// withDefaults replaces values that are 0 or no number.
func (b Bounds) withDefaults() Bounds {
	// Four attempts and a second double to waits of at most 1, 2 and 4 s; the budget lets retries add a tenth to the
	// load of a service that already suffers.
	if b.Attempts == 0 {
		b.Attempts = 4
	}
	if b.MaxWait == 0 {
		b.MaxWait = time.Minute
	}
	if b.Backoff == 0 {
		b.Backoff = time.Second
	}
	if b.MaxBackoff == 0 {
		b.MaxBackoff = 20 * time.Second
	}
	if b.Budget == 0 || math.IsNaN(b.Budget) {
		b.Budget = 0.1
	}

	return b
}

// window returns the longest random part of the wait after a number of repeats.
func (b *Bounds) window(repeated int) time.Duration {
	// From here on a shift would overflow, and the maximum holds anyway.
	if repeated > 62 || b.Backoff > b.MaxBackoff>>repeated {
		return max(b.MaxBackoff, 0)
	}
	return max(b.Backoff<<repeated, 0)
}
