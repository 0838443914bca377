package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Retrier decides for all calls of a client whether and when they are repeated. Its methods may be called concurrently.
type Retrier struct {
	bounds Bounds
	budget budget
	// random returns a uniform number from 0 to n-1. Tests have one of their own.
	random func(n int64) int64
}

// NewRetrier returns a retrier. It is one for all calls of a client: its budget is a share of them.
func NewRetrier(b Bounds) *Retrier {
	r := &Retrier{bounds: b.withDefaults(), random: rand.Int64N}
	r.budget.init(r.bounds.Budget)
	return r
}

// Call is one call with its repeats. One goroutine uses it.
type Call struct {
	retrier  *Retrier
	repeated int
}

// Begin counts a call, whose first attempt may be sent at once.
func (r *Retrier) Begin() Call {
	r.budget.add()
	return Call{retrier: r}
}

// Next returns when a refused call may be sent again, and whether it may. told is how long the server asks to
// wait, 0 if it does not say. It may not if the attempts or the budget are used up, if the server asks for more than
// MaxWait, or if the context would end before.
func (c *Call) Next(ctx context.Context, told time.Duration) (at time.Time, ok bool) {
	b := &c.retrier.bounds
	if c.repeated+1 >= b.Attempts || told > b.MaxWait || ctx.Err() != nil {
		return time.Time{}, false
	}

	// The random part comes on top, so that clients that are told one instant do not return at one instant. It must not
	// make the wait longer than its bound.
	told = max(told, 0)
	window := min(b.window(c.repeated), b.MaxWait-told)
	wait := told
	if window > 0 {
		wait += time.Duration(c.retrier.random(int64(window)))
	}

	// A wait that the context ends would only lose the answer that the caller has now.
	at = time.Now().Add(wait)
	if deadline, bounded := ctx.Deadline(); bounded && deadline.Before(at) {
		return time.Time{}, false
	}

	// The budget comes last: a request that is not repeated for another reason takes nothing.
	if !c.retrier.budget.take() {
		return time.Time{}, false
	}
	c.repeated++
	return at, true
}

// WaitUntil waits for an instant. It returns the context's error if that ends first, and also if it has ended at that instant.
func WaitUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
