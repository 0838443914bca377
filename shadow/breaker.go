package shadow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// When a breaker opens, and for how long. The rest is spread over a fifth, so that
// instances do not all come back at once.
const (
	breakAfter  = 5 // failures on end
	breakWithin = 10 * time.Second
	breakStep   = time.Second
	breakFor    = 30 * time.Second
)

// errNotAsked tells a breaker that what it keeps requests off was not asked, or not
// given the time to answer.
var errNotAsked = errors.New("shadow: not asked")

// breaker keeps requests off a store or a limiter that fails again and again: after
// breakFor one request tries it anew.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	changed func(open bool)
	moved   atomic.Int32 // what changed is still to be told, movedNot if nothing
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
		IsExcluded: func(err error) bool {
			return err == errNotAsked || errors.Is(err, context.Canceled) // the caller has left
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { // under the breaker's lock
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

// finish ends what Allow began, and tells of a change when requests need not wait for
// whoever is told, such as a log that hangs.
func (b *breaker) finish(done func(error), err error) {
	done(err)
	if b.moved.Load() == movedNot {
		return
	}
	if moved := b.moved.Swap(movedNot); moved != movedNot {
		b.changed(moved == movedOpen)
	}
}

// resting reports whether nothing is tried for a while.
func (b *breaker) resting() bool { return b != nil && b.State() == gobreaker.StateOpen }

// open reports whether requests are kept off.
func (b *breaker) open() bool { return b != nil && b.State() != gobreaker.StateClosed }
