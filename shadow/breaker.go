package shadow

import (
	"context"
	"errors"
	"math/rand/v2"
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

// errBroken is the error of what was not asked because it failed again and again.
var errBroken = errors.New("shadow: not asked: the breaker is open")

// errNotAsked tells a breaker that what it keeps requests off was not asked, or not
// given the time to answer.
var errNotAsked = errors.New("shadow: not asked")

// breaker keeps requests off a store or a limiter that fails again and again: after
// breakFor one request tries it anew.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
}

// newBreaker calls changed when the breaker opens or closes.
func newBreaker(changed func(open bool)) *breaker {
	return &breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     breakWithin,
		BucketPeriod: breakStep,
		Timeout:      breakFor - breakFor/5 + rand.N(2*breakFor/5),
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		IsExcluded: func(err error) bool {
			return err == errNotAsked || errors.Is(err, context.Canceled) // the caller has left
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to != gobreaker.StateHalfOpen && from != gobreaker.StateClosed || to == gobreaker.StateOpen && from == gobreaker.StateClosed {
				changed(to == gobreaker.StateOpen)
			}
		},
	})}
}

// resting reports whether nothing is tried for a while.
func (b *breaker) resting() bool { return b != nil && b.State() == gobreaker.StateOpen }

// open reports whether requests are kept off.
func (b *breaker) open() bool { return b != nil && b.State() != gobreaker.StateClosed }
