package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/policies"
)

// peerRule is a peer's rule, written again from its source or documentation. It is given requests in order.
type peerRule func(r *policies.Request, at time.Time) bool

// peerRules are the rules of peers, by the names of their models. gap is the mean time between two requests.
var peerRules = []struct {
	model string
	gap   time.Duration
	paths []string
	rule  peerRule
}{
	{"kong", 12 * time.Millisecond, []string{"/second"}, kongRule(time.Second, 5)},
	{"kong", 60 * time.Millisecond, []string{"/minute"}, kongRule(time.Minute, 60)},
	{"limitador", 400 * time.Millisecond, []string{"/"}, anchoredRule(10, 60*time.Second)},
	{"express-rate-limit", 400 * time.Millisecond, []string{"/"}, anchoredRule(10, 60*time.Second)},
	{"envoy-ratelimit", 200 * time.Millisecond, []string{"/a", "/b", "/c"}, envoyRule},
	{"rack-attack", 200 * time.Millisecond, []string{"/"}, rackRule(20, 60*time.Second)},
	{"traefik", 6 * time.Millisecond, []string{"/"}, traefikRule(10, 20)},
	{"x-time-rate", 6 * time.Millisecond, []string{"/"}, timeRule(10, 20)},
}

// The rules of peers and their models decide 100,000 random requests of five users alike.
func TestModelsOfRules(t *testing.T) {
	t.Parallel()
	for n := range peerRules {
		peer := &peerRules[n]
		t.Run(fmt.Sprint(peer.model, peer.paths), func(t *testing.T) {
			model, rng := newPeerModel(t, peer.model), rand.New(rand.NewPCG(18, uint64(n)))
			at, denied := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC), 0
			const requests = 100_000
			for i := range requests {
				at = at.Add(peerGap(rng, peer.gap, at))
				r := policies.Request{Path: peer.paths[rng.IntN(len(peer.paths))], User: fmt.Sprint("u", rng.IntN(5))}
				r.Route = r.Path

				got, want := model.allows(t, &r, at), peer.rule(&r, at)
				if got != want {
					t.Fatalf("request %d, %s of %s at %s: the model says %t, the peer %t", i, r.Path, r.User, at.Format(time.RFC3339Nano), got, want)
				}
				if !want {
					denied++
				}
			}

			t.Logf("%d requests, %d of them denied", requests, denied)
			if denied < requests/20 || denied > requests*19/20 {
				t.Errorf("%d of %d requests were denied: that tells little", denied, requests)
			}
		})
	}
}

// peerGap draws the time to the next request: mostly short, sometimes a pause, and sometimes up to the begin of a second.
func peerGap(rng *rand.Rand, mean time.Duration, at time.Time) time.Duration {
	switch rng.IntN(200) {
	case 0:
		return at.Truncate(time.Second).Add(time.Second).Sub(at)
	case 1:
		return time.Duration(rng.Int64N(int64(100 * mean))).Truncate(time.Microsecond)
	}
	return time.Duration(rng.ExpFloat64() * float64(mean)).Truncate(time.Microsecond)
}

// windowCount names a count: of a key, in the window that began then.
type windowCount struct {
	key   string
	began int64
}

// kongRule is kong/plugins/rate-limiting/handler.lua with policy local: usage is read, a limit without a rest stops, and only
// an admitted request is counted. Periods begin as kong/tools/timestamp.lua says, for seconds and minutes of UTC.
func kongRule(period time.Duration, limit int) peerRule {
	usage := map[windowCount]int{}
	return func(r *policies.Request, at time.Time) bool {
		of := windowCount{r.User, at.Truncate(period).Unix()}
		if limit-usage[of] <= 0 {
			return false
		}
		usage[of]++
		return true
	}
}

// anchoredRule is limitador/src/storage/in_memory.rs, and the MemoryStore of express-rate-limit: a window that is over at its
// end is replaced by one that begins with this request.
func anchoredRule(limit int, window time.Duration) peerRule {
	type open struct {
		until time.Time
		hits  int
	}
	windows := map[string]*open{}
	return func(r *policies.Request, at time.Time) bool {
		w := windows[r.User]
		if w == nil || !w.until.After(at) {
			w = &open{until: at.Add(window)}
			windows[r.User] = w
		}
		if w.hits+1 > limit {
			return false
		}
		w.hits++
		return true
	}
}

var envoyUser, envoyRoute = rackRuleBy(30, time.Minute), rackRuleBy(3, time.Second)

// envoyRule is src/limiter of envoyproxy/ratelimit: every descriptor is counted, also of a request that is denied.
func envoyRule(r *policies.Request, at time.Time) bool {
	byUser, byRoute := envoyUser(r.User, at), envoyRoute(r.Path, at)
	return byUser && byRoute
}

// rackRule is lib/rack/attack/throttle.rb.
func rackRule(limit int, period time.Duration) peerRule {
	by := rackRuleBy(limit, period)
	return func(r *policies.Request, at time.Time) bool { return by(r.User, at) }
}

// rackRuleBy counts every request in windows of whole seconds since 1970, and compares afterwards.
func rackRuleBy(limit int, period time.Duration) func(string, time.Time) bool {
	counts := map[windowCount]int{}
	return func(key string, at time.Time) bool {
		seconds := int64(period / time.Second)
		of := windowCount{key, at.Unix() / seconds}
		counts[of]++
		return counts[of] <= limit
	}
}

// traefikRule is pkg/middlewares/ratelimiter/rate_limiter.go over the real x/time/rate: a reservation that would wait for
// longer than half of the time of a request is given back.
func traefikRule(average, burst int) peerRule {
	buckets := map[string]*rate.Limiter{}
	maxDelay := time.Second / time.Duration(2*average)
	return func(r *policies.Request, at time.Time) bool {
		b := buckets[r.User]
		if b == nil {
			b = rate.NewLimiter(rate.Limit(average), burst)
			buckets[r.User] = b
		}

		reservation := b.ReserveN(at, 1)
		if reservation.DelayFrom(at) > maxDelay {
			reservation.CancelAt(at)
			return false
		}
		return true
	}
}

// timeRule is the real x/time/rate.
func timeRule(limit, burst int) peerRule {
	buckets := map[string]*rate.Limiter{}
	return func(r *policies.Request, at time.Time) bool {
		b := buckets[r.User]
		if b == nil {
			b = rate.NewLimiter(rate.Limit(limit), burst)
			buckets[r.User] = b
		}
		return b.AllowN(at, 1)
	}
}
