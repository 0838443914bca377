package integration

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/policies"
)

// The real redis_rate decides as its model does, but for its doubles: an admission is off by up to 30 ns, and the errors of a
// client that never pauses add up. A decision that differs lies within 20 microseconds of the edge. The library asks a server
// whose clock can be set, and which computes in the same doubles as Redis.
func TestModelOfRedisRate(t *testing.T) {
	long(t)
	t.Parallel()
	peer := peerWithRule{gap: 6 * time.Millisecond, paths: []string{"/"}}
	rule, library := redisRateRule(10, 20), redisRateLibrary(t, redis_rate.Limit{Rate: 10, Burst: 20, Period: time.Second})
	model, found := newPeerModel(t, "redis-rate"), agreement{}
	for i, r := range peer.draw(1) {
		r.allowed = rule(&r.request, r.at)
		found.add(model.compare(t, r, 20*time.Microsecond))

		// The library is slow: a part of the requests shows that the rule is its own.
		if i < requestsOfARule/50 && library(&r.request, r.at) != r.allowed {
			t.Fatalf("request %d: redis_rate does not decide by its rule", i)
		}
	}

	t.Log(found)
	mustTell(t, found.denied)
	if found.equal+found.edge != found.all || found.equal < requestsOfARule*999/1000 {
		t.Errorf("%s, want 99.9 %%, and every difference within 20 us", found)
	}
}

// redisRateRule is perform_gcra_ratelimit.lua of redis_rate, in doubles of seconds since 2017.
func redisRateRule(perSecond, burst float64) peerRule {
	tats := map[string]float64{}
	interval := 1 / perSecond
	return func(r *policies.Request, at time.Time) bool {
		now := float64(at.Unix()-1483228800) + float64(at.Nanosecond()/1000)/1e6
		tat := max(tats[r.User], now) + interval
		if (now-(tat-interval*burst))/interval < 0 {
			return false
		}
		tats[r.User] = tat
		return true
	}
}

func redisRateLibrary(t *testing.T, limit redis_rate.Limit) peerRule {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	limiter := redis_rate.NewLimiter(client)

	return func(r *policies.Request, at time.Time) bool {
		server.SetTime(at)
		result, err := limiter.Allow(t.Context(), r.User, limit)
		if err != nil {
			t.Fatal(err)
		}
		return result.Allowed > 0
	}
}
