package engine

import (
	"context"
	"fmt"
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
