package integration

import (
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// springRule is META-INF/scripts/request_rate_limiter.lua of Spring Cloud Gateway. Its keys expire when the bucket is full.
func springRule(rate, capacity int64) peerRule {
	type bucket struct{ tokens, refreshed int64 }
	buckets := map[string]bucket{}
	return func(r *policies.Request, at time.Time) bool {
		now := at.Unix()
		b, ok := buckets[r.User]
		if !ok {
			b = bucket{capacity, now}
		}

		b.tokens = min(capacity, b.tokens+max(0, now-b.refreshed)*rate)
		b.refreshed = now
		allowed := b.tokens >= 1
		if allowed {
			b.tokens--
		}
		buckets[r.User] = b
		return allowed
	}
}
