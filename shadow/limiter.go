package shadow

import (
	"context"
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Limiter is what a limiter of the user's own is wrapped into.
type Limiter interface {
	// Allow spends cost units of key's budget if it bears them, else nothing. The
	// limit is the one configured beside the limiter's name, zero if none is; a
	// limiter that knows its own ignores it. Fields of the decision that it cannot
	// tell stay 0, Remaining -1. An error means that nothing was decided. Allow may
	// be called concurrently and must return soon after ctx is over, which is that
	// of the request where the limiter is enforced.
	Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)
}

// LimiterFunc makes a Limiter of a function.
type LimiterFunc func(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)

// Allow implements Limiter.
func (f LimiterFunc) Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error) {
	return f(ctx, key, limit, cost)
}

// AllowFunc makes a Limiter of the simplest kind there is: may this key do one
// more? Costs above 1, up to 1,000, ask that often and are allowed if all are, so
// a cost that is refused half-way has spent the half.
func AllowFunc(allow func(key string) bool) Limiter {
	return LimiterFunc(func(_ context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error) {
		if cost > mostAsked {
			return algorithms.Decision{}, fmt.Errorf("shadow: cost %d: a yes-or-no limiter is asked at most %d times", cost, mostAsked)
		}
		d := algorithms.Decision{Allowed: true, Limit: limit.Capacity(), Remaining: -1}
		for ; cost > 0 && d.Allowed; cost-- {
			d.Allowed = allow(key)
		}
		return d, nil
	})
}

const mostAsked = 1000

// call asks a limiter of the user's own; its panic is an error.
func call(ctx context.Context, l Limiter, c *algorithms.Charge, limit algorithms.Limit) (o algorithms.Observation) {
	defer func() {
		if p := recover(); p != nil {
			o = algorithms.Observation{Err: fmt.Errorf("shadow: limiter of %s: panic: %v", c.Policy, p)}
		}
	}()
	o.Decision, o.Err = l.Allow(ctx, c.Key, limit, c.Cost)
	return o
}

// guarded is an algorithm of the user's own whose panic is an error.
type guarded struct{ algorithms.Algorithm }

// Step implements algorithms.Algorithm.
func (g guarded) Step(s algorithms.State, l algorithms.Limit, cost, at int64) (next algorithms.State, d algorithms.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, d, err = s, algorithms.Decision{}, fmt.Errorf("shadow: algorithm %s: panic: %v", g.Name(), p)
		}
	}()
	return g.Algorithm.Step(s, l, cost, at)
}

// guard wraps what is not one of this module's algorithms.
func guard(a algorithms.Algorithm) algorithms.Algorithm {
	if _, own := a.(algorithms.Termed); own || a == nil {
		return a
	}
	return guarded{a}
}
