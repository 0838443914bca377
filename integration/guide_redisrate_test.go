package integration

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/go-redis/redis_rate/v10"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func redisRate(limiter *redis_rate.Limiter) shadow.Limiter {
	return shadow.LimiterFunc(func(ctx context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
		limit := redis_rate.Limit{Rate: int(l.Requests), Period: l.Window, Burst: int(l.Burst)}
		r, err := limiter.AllowN(ctx, key, limit, int(cost))
		if err != nil {
			return algorithms.Decision{}, err
		}
		d := algorithms.Decision{
			Allowed: r.Allowed > 0, Capacity: l.Burst, Remaining: int64(r.Remaining), ResetAfter: r.ResetAfter,
		}
		if !d.Allowed {
			d.RetryAfter = r.RetryAfter
		}
		return d, nil
	})
}

// With the guide's file and function redis_rate is obeyed. TestModelOfRedisRate has that the candidate decides alike.
func TestGuideOfRedisRate(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/leaving-redis-rate.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("guide_redisrate_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if block := fenced(string(guide), "go"); len(block) != 1 || !strings.Contains(string(source), block[0]) {
		t.Error("the guide's function is not the one that is tested")
	}

	addr, stop, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := clientOf(t, server{addr: addr})
	text := fenced(string(guide), "yaml")[0]
	set, err := policies.Load("policies.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h := harnessOf(t, shadow.Config{
		Policies: set, Redis: client, Limiters: map[string]shadow.Limiter{"redis-rate": redisRate(redis_rate.NewLimiter(client))},
	})
	allowed := 0
	for range 60 {
		d := h.Decide(t.Context(), &policies.Request{IP: "192.0.2.1"})
		if d.Fallback || d.Allowed == (d.RetryAfter > 0) {
			t.Errorf("%+v", d)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed < 20 || allowed > 25 { // one more every three seconds
		t.Errorf("%d of 60 requests were allowed", allowed)
	}
}
