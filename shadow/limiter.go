package shadow

import (
	"context"
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Limiter is a custom limiter, which is one of yours, as the harness calls it.
type Limiter interface {
	// Allow spends cost units of key's budget if the budget has them, and nothing
	// otherwise. The limit is the one configured beside the limiter's name, zero if
	// there is none; a limiter that has its own limit ignores it. Fields of the decision
	// that the limiter does not know stay 0, Remaining -1. An error means that nothing
	// was decided. Allow may be called concurrently, and must return soon after ctx is
	// over. Where the limiter is enforced, ctx is the request's.
	Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)
}

// LimiterFunc makes a Limiter of a function.
type LimiterFunc func(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)

// Allow implements Limiter.
func (f LimiterFunc) Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error) {
	return f(ctx, key, limit, cost)
}

// AllowFunc makes a Limiter of a function that says yes or no to one more unit. A cost
// above 1, up to 1,000, calls the function that many times, and is allowed if all calls
// are: a cost that is refused half-way has spent the half.
func AllowFunc(allow func(key string) bool) Limiter {
	if allow == nil {
		return nil // which New and NewPair refuse
	}
	return LimiterFunc(func(_ context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error) {
		if cost > mostAsked {
			return algorithms.Decision{}, fmt.Errorf("shadow: cost %d: a yes-or-no limiter is asked at most %d times", cost, mostAsked)
		}

		d := algorithms.Decision{Allowed: true, Capacity: limit.Capacity(), Remaining: -1}
		for ; cost > 0 && d.Allowed; cost-- {
			d.Allowed = allow(key)
		}
		return d, nil
	})
}

// mostAsked bounds the calls for one check. A cost may come from an expression, and so from
// a client, which could make one request arbitrarily slow.
const mostAsked = 1000
