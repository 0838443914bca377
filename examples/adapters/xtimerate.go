package adapters

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// XTimeRate adapts golang.org/x/time/rate: a map with a limiter per key, as services
// have it, with a bound. The zero value is ready to use.
type XTimeRate struct {
	mu   sync.Mutex
	keys map[string]*rate.Limiter
}

var _ shadow.Limiter = (*XTimeRate)(nil)

// maxKeys bounds the limiters in memory. When it is reached, limiters with a full bucket
// are dropped: they would decide the same if they were created again.
const maxKeys = 100_000

var errFull = errors.New("adapters: too many keys are limited at once")

// Allow implements shadow.Limiter: limit.Requests per limit.Window, and limit.Burst at
// once.
func (x *XTimeRate) Allow(
	_ context.Context, key string, limit algorithms.Limit, cost int64,
) (algorithms.Decision, error) {
	now := time.Now()
	limiter, err := x.limiter(key, limit, now)
	if err != nil {
		return algorithms.Decision{}, err
	}

	d := algorithms.Decision{Allowed: limiter.AllowN(now, int(cost)), Capacity: limit.Capacity()}
	tokens := limiter.TokensAt(now)
	d.Remaining = int64(max(0, tokens))
	d.ResetAfter = refill(limiter, float64(limiter.Burst())-tokens)

	switch {
	case d.Allowed: // nothing to wait for
	case cost > limit.Capacity():
		d.RetryAfter = algorithms.Never
	default:
		d.RetryAfter = refill(limiter, float64(cost)-tokens)
	}

	return d, nil
}

// refill returns the time in which a limiter gains a number of tokens.
func refill(l *rate.Limiter, tokens float64) time.Duration {
	return time.Duration(tokens / float64(l.Limit()) * float64(time.Second))
}

// limiter returns the limiter of a key. If all limiters are in use and none can be
// dropped, a new key is an error: it must not get an unlimited budget.
func (x *XTimeRate) limiter(key string, limit algorithms.Limit, now time.Time) (*rate.Limiter, error) {
	x.mu.Lock()
	defer x.mu.Unlock()

	if l := x.keys[key]; l != nil {
		return l, nil
	}

	if len(x.keys) >= maxKeys {
		for k, l := range x.keys {
			if l.TokensAt(now) >= float64(l.Burst()) {
				delete(x.keys, k)
			}
		}
		if len(x.keys) >= maxKeys {
			return nil, errFull
		}
	}

	if x.keys == nil {
		x.keys = make(map[string]*rate.Limiter)
	}

	l := rate.NewLimiter(rate.Limit(float64(limit.Requests)/limit.Window.Seconds()), int(limit.Capacity()))
	x.keys[key] = l
	return l, nil
}
