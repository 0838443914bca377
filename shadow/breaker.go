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
	// Failures in a row: a count of failures among successes would open the breaker of a
	// busy store for a few isolated ones.
	breakAfter  = 5
	breakWithin = 10 * time.Second
	// The interval slides by this step. A fixed interval forgets failures at its boundary,
	// and a breaker whose failures lie on both sides of one would stay closed.
	breakStep = time.Second
	breakFor  = 30 * time.Second
)

// errNotAsked tells a breaker that the request is no sign of health or failure: nothing was
// asked, or it had no time to answer.
var errNotAsked = errors.New("shadow: not asked")

// breaker keeps requests off a store or a limiter that fails again and again. After
// breakFor one request tries it again. It may be used concurrently. A nil breaker, as of a
// store in memory, is never open.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	// changed is called by finish, at most once for each opening and closing.
	changed func(open bool)
	// moved is the change that changed has not been called for yet. It is written under
	// the breaker's lock and taken outside of it.
	moved atomic.Int32
}

// The values of breaker.moved. A breaker that begins to try is not reported: it is still
// open for all requests but one.
const (
	movedNot = iota
	movedOpen
	movedClosed
)

// newBreaker calls changed when the breaker opens or closes.
func newBreaker(changed func(open bool)) *breaker {
	b := &breaker{changed: changed}

	// Asking and counting are two steps, because an error of one charge is no failure of
	// the store: the caller tells them apart after the answer.
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1, // a store that recovers is not met by all requests at once
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

// finish ends what Allow began, and must follow each Allow that returned no error: a trial
// that never ends keeps the breaker from closing. It calls changed outside of the breaker's
// lock, because no other request may wait for a log that hangs.
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

// resting reports whether nothing is asked for a while, not even to try. Code that decides
// whether to ask at all uses it, and not open: without a trial the breaker never closes.
func (b *breaker) resting() bool { return b != nil && b.State() == gobreaker.StateOpen }

// open reports whether requests are kept off, except for one that tries. It is what an
// operator wants to see, and decides nothing.
func (b *breaker) open() bool { return b != nil && b.State() != gobreaker.StateClosed }
