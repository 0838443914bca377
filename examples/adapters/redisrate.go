package adapters

import (
	"context"
	"fmt"

	"github.com/go-redis/redis_rate/v10"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// RedisRate adapts github.com/go-redis/redis_rate.
type RedisRate struct{ *redis_rate.Limiter }

var _ shadow.Limiter = RedisRate{}

// Allow implements shadow.Limiter: limit.Requests per limit.Window, and limit.Burst at
// once.
func (r RedisRate) Allow(
	ctx context.Context, key string, limit algorithms.Limit, cost int64,
) (algorithms.Decision, error) {
	rate := redis_rate.Limit{Rate: int(limit.Requests), Period: limit.Window, Burst: int(limit.Capacity())}

	result, err := r.AllowN(ctx, key, rate, int(cost))
	if err != nil {
		return algorithms.Decision{}, fmt.Errorf("adapters: redis_rate: %w", err)
	}

	d := algorithms.Decision{
		Allowed:    cost == 0 || result.Allowed > 0,
		Capacity:   limit.Capacity(),
		Remaining:  int64(result.Remaining),
		RetryAfter: max(0, result.RetryAfter), // redis_rate returns -1 if the request is allowed
		ResetAfter: result.ResetAfter,
	}

	// A cost above the capacity is denied however long the client waits.
	if cost > d.Capacity {
		d.RetryAfter = algorithms.Never
	}

	return d, nil
}
