package shadow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
			o = algorithms.Failure(fmt.Errorf("shadow: limiter of %s: panic: %v", c.Policy, p))
		}
	}()
	start := time.Now()
	o.Decision, o.Err = l.Allow(ctx, c.Key, limit, c.Cost)
	o.Took = time.Since(start)
	if o.Err != nil {
		o.Status = algorithms.Failed
	}
	return o
}

// Bounds of calls of a limiter that is enforced in the place of another: tomorrow's
// may not hold a request up as today's never did.
const (
	callTimeout = 250 * time.Millisecond
	mostCalls   = 1024 // at a time, per policy, those left behind included
)

var errCalls = errors.New("shadow: too many calls of the limiter have not returned")

// callEnforced asks an enforced limiter of the user's own. Today's is called as it
// always was. Tomorrow's is given callTimeout, and left behind if it does not return.
func (m *migration) callEnforced(ctx context.Context, l Limiter, c *algorithms.Charge, limit algorithms.Limit) algorithms.Observation {
	if c.Enforced == algorithms.Authoritative {
		return call(ctx, l, c, limit)
	}
	return m.spared(c.Enforced, func() algorithms.Observation {
		select {
		case m.calls <- struct{}{}:
		default:
			return algorithms.Failure(errCalls)
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		behind := *c
		behind.Key = strings.Clone(c.Key)
		answer := make(chan algorithms.Observation, 1)
		go func() {
			defer func() { <-m.calls }()
			answer <- call(ctx, l, &behind, limit)
		}()
		select {
		case o := <-answer:
			return o
		case <-ctx.Done():
			return algorithms.Failure(ctx.Err())
		}
	})
}

// spared asks a limiter unless it has failed again and again.
func (m *migration) spared(role algorithms.Role, ask func() algorithms.Observation) algorithms.Observation {
	done, err := m.breakers[role].Allow()
	if err != nil {
		return algorithms.Skip(algorithms.BreakerOpen)
	}
	o := ask()
	m.breakers[role].finish(done, o.Err)
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
