package integration

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/policies"
)

// traefikRule is pkg/middlewares/ratelimiter over the real x/time/rate: a reservation that would wait for longer than half of
// the time of a request, but for at most 500 ms, is given back. A client is forgotten after ttl seconds without a request, in
// whole seconds of the clock.
func traefikRule(average, burst int, period time.Duration) peerRule {
	type bucket struct {
		*rate.Limiter
		expires int64
	}
	buckets := map[string]bucket{}
	perSecond := float64(average) / period.Seconds()
	maxDelay, ttl := 500*time.Millisecond, int64(1)
	if perSecond >= 1 {
		maxDelay, ttl = time.Second/time.Duration(2*math.Floor(perSecond)), 2
	} else {
		ttl += int64(1 / perSecond)
	}
	return func(r *policies.Request, at time.Time) bool {
		b := buckets[r.User]
		if b.Limiter == nil || b.expires <= at.Unix() {
			b.Limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
		}
		b.expires = at.Unix() + ttl
		buckets[r.User] = b

		reservation := b.ReserveN(at, 1)
		if reservation.DelayFrom(at) > maxDelay {
			reservation.CancelAt(at)
			return false
		}
		return true
	}
}

// On a log with parts of seconds Traefik forgets a client up to a second sooner than its model. The client then has its burst
// again, and the two do not meet until it pauses.
func TestModelOfTraefikBetweenSeconds(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		path  string
		gap   time.Duration
		rule  peerRule
		least int // percent of the decisions
	}{
		{"/", 6 * time.Millisecond, traefikRule(10, 20, time.Second), 91},
		{"/slow", 800 * time.Millisecond, traefikRule(6, 12, time.Minute), 97},
	} {
		t.Run(of.path, func(t *testing.T) {
			peer, found := peerWithRule{gap: of.gap, paths: []string{of.path}}, agreement{all: requestsOfARule}
			model := newPeerModel(t, "traefik")
			for _, r := range peer.draw(1) {
				r.allowed = of.rule(&r.request, r.at)
				found.denied += refusals(*r)
				if model.allows(t, &r.request, r.at) == r.allowed {
					found.equal++
				}
			}

			t.Log(found)
			mustTell(t, found.denied)
			if found.equal < requestsOfARule*of.least/100 {
				t.Errorf("%s, want %d %%", found, of.least)
			}
		})
	}
}
