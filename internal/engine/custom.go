package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// caller is a custom limiter, which is one of the user's.
type caller interface {
	Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)
}

// call asks a custom limiter. Its panic is a failure like any other: it may happen in a
// goroutine of ours, where it would end the process.
func call(ctx context.Context, l caller, c *algorithms.Check, limit algorithms.Limit) (o algorithms.Observation) {
	defer func() {
		if p := recover(); p != nil {
			o = algorithms.Failure(fmt.Errorf("shadow: limiter of %s: panic: %v", c.Policy, p))
		}
	}()

	start := time.Now()
	o.Decision, o.Err = l.Allow(ctx, c.Key, limit, c.Cost)
	o.Took = time.Since(start)
	if o.Status = algorithms.Judged; o.Err != nil {
		o.Status = algorithms.Failed
	}
	return o
}

// Bounds of calls of an enforced custom candidate, which must not hold a request up as the
// authoritative never did.
const (
	callTimeout = 250 * time.Millisecond
	// mostCalls is at a time, per policy, including calls that were left behind: a limiter
	// that never returns must not use up the memory with goroutines.
	mostCalls = 1024
)

var errCalls = errors.New("shadow: too many calls of the limiter have not returned")

// callBounded asks an enforced custom limiter for no longer than callTimeout. A call
// that does not return by then is left behind.
func (s *Side) callBounded(ctx context.Context, c *algorithms.Check, limit algorithms.Limit) algorithms.Observation {
	return s.withBreaker(ctx, func() algorithms.Observation {
		select {
		case s.calls <- struct{}{}:
		default:
			return algorithms.Failure(errCalls)
		}

		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()

		// The request's buffers may be used again while a call that was left behind
		// still reads the key.
		kept := *c
		kept.Key = strings.Clone(c.Key)

		// The channel has a place, so that a call that returns too late ends. It gives its
		// value in s.calls back only then.
		answer := make(chan algorithms.Observation, 1)
		go func() {
			defer func() { <-s.calls }()
			answer <- call(ctx, s.custom, &kept, limit)
		}()

		select {
		case o := <-answer:
			return o
		case <-ctx.Done():
			return algorithms.Failure(ctx.Err())
		}
	})
}

// withBreaker asks a custom limiter for a caller with that context, unless the limiter has
// failed again and again. ask must not panic: its trial of the breaker would be lost.
func (s *Side) withBreaker(ctx context.Context, ask func() algorithms.Observation) algorithms.Observation {
	asked, ok := s.breaker.allow()
	if !ok {
		return algorithms.Skip(algorithms.BreakerOpen)
	}
	o := ask()

	// As with a store: a limiter that a caller gave less time than it has had otherwise has
	// not failed.
	err := o.Err
	if err != nil && asked.hurried(ctx, callTimeout) {
		err = errNotAsked
	}
	s.breaker.finish(asked, err)
	return o
}

// recovering is a user's algorithm, whose panic is an error: a candidate's must not end the request that the
// authoritative allows. Some calls happen after the answer, where a panic would end the process. Its name and its traits
// never change, and are asked for once, at the start.
type recovering struct {
	algorithms.Algorithm
	name   string
	traits algorithms.Traits
}

// Name implements algorithms.Algorithm.
func (r *recovering) Name() string { return r.name }

// Traits implements algorithms.Described: the wrapper must not hide how the user's
// algorithm forgets, for the causes of differences follow from it.
func (r *recovering) Traits() algorithms.Traits { return r.traits }

// Validate implements algorithms.Algorithm.
func (r *recovering) Validate(l algorithms.Limit) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(p)
		}
	}()
	return r.Algorithm.Validate(l)
}

// Step implements algorithms.Algorithm.
func (r *recovering) Step(
	s algorithms.State, l *algorithms.Limit, cost, at int64,
) (next algorithms.State, d algorithms.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, d, err = s, algorithms.Decision{}, r.panicked(p)
		}
	}()
	return r.Algorithm.Step(s, l, cost, at)
}

func (r *recovering) panicked(p any) error {
	return fmt.Errorf("shadow: algorithm %s: panic: %v", r.name, p)
}

// RecoverPanics wraps an algorithm that is not one of this module's. Those are told by
// their scripts: a user's algorithm may embed one of them, and has its Terms then.
func RecoverPanics(a algorithms.Algorithm) algorithms.Algorithm {
	if a == nil || lua.HasScript(a) {
		return a
	}
	return &recovering{a, a.Name(), algorithms.TraitsOf(a)}
}

// ErrNoScript is the error of an algorithm in Redis that no script implements. Without it
// a service would start, and fall back at every request.
func ErrNoScript(a algorithms.Algorithm) error {
	return fmt.Errorf("%s has no script for Redis: give it as a Limiter", a.Name())
}
