package shadow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// When a breaker opens, and for how long. The time is spread by a fifth to each side, so
// that instances do not all come back at once.
const (
	breakAfter  = 5 // failures in a row
	breakWithin = 10 * time.Second
	breakStep   = time.Second
	breakFor    = 30 * time.Second
)

// errNotAsked tells a breaker that the request is no sign of health or failure: nothing was
// asked, or it had no time to answer.
var errNotAsked = errors.New("shadow: not asked")

// breaker keeps requests off a store or a limiter that fails again and again. After
// breakFor one request tries it again.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	changed func(open bool)
	moved   atomic.Int32 // the change that changed has not been called for yet
}

const (
	movedNot = iota
	movedOpen
	movedClosed
)

// newBreaker calls changed when the breaker opens or closes.
func newBreaker(changed func(open bool)) *breaker {
	b := &breaker{changed: changed}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     breakWithin,
		BucketPeriod: breakStep,
		Timeout:      breakFor - breakFor/5 + rand.N(2*breakFor/5),
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },

		// A caller that leaves says nothing of the store or limiter that it has asked.
		IsExcluded: func(err error) bool {
			return errors.Is(err, errNotAsked) || errors.Is(err, context.Canceled)
		},

		// This runs under the breaker's lock, which every request needs: finish calls
		// changed later.
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				b.moved.Store(movedOpen)
			case gobreaker.StateClosed:
				b.moved.Store(movedClosed)
			}
		},
	})
	return b
}

// finish ends what Allow began. It calls changed outside of the breaker's lock: no other
// request may wait for a log that hangs.
func (b *breaker) finish(done func(error), err error) {
	done(err)
	if b.moved.Load() == movedNot {
		return
	}

	// Of several requests that end now, one reports the change.
	if moved := b.moved.Swap(movedNot); moved != movedNot {
		b.changed(moved == movedOpen)
	}
}

// resting reports whether nothing is asked for a while, not even to try.
func (b *breaker) resting() bool { return b != nil && b.State() == gobreaker.StateOpen }

// open reports whether requests are kept off, except for one that tries.
func (b *breaker) open() bool { return b != nil && b.State() != gobreaker.StateClosed }
