package integration

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/policies"
)

// peerRule is a peer's rule, written again from its source or documentation. It is given requests in order.
type peerRule func(r *policies.Request, at time.Time) bool

// peerWithRule is the rule of a peer, by the name of its model.
type peerWithRule struct {
	model string
	gap   time.Duration // the mean time between two requests
	paths []string      // each request has one of them
	rule  peerRule
}

// peerRules have models that decide every request as they do.
var peerRules = []peerWithRule{
	{"envoy-ratelimit", 100 * time.Millisecond, []string{"/a", "/b", "/c"}, envoyRule(60, 8)},
	{"x-time-rate", 6 * time.Millisecond, []string{"/"}, timeRule(10, 20)},
}

// requestsOfARule are drawn for each peer.
const requestsOfARule = 100_000

// The rules of peers and their models decide 100,000 random requests of five users alike.
func TestModelsOfRules(t *testing.T) {
	long(t)
	t.Parallel()
	for n := range peerRules {
		peer := &peerRules[n]
		t.Run(fmt.Sprint(peer.model, peer.paths), func(t *testing.T) {
			model, denied := newPeerModel(t, peer.model), 0
			for i, r := range peer.draw(uint64(n)) {
				got, want := model.allows(t, &r.request, r.at), peer.rule(&r.request, r.at)
				if got != want {
					t.Fatalf("request %d, %s of %s at %s: the model says %t, the peer %t",
						i, r.request.Path, r.request.User, r.at.Format(time.RFC3339Nano), got, want)
				}
				if !want {
					denied++
				}
			}

			t.Logf("%d requests, %d of them denied", requestsOfARule, denied)
			mustTell(t, denied)
		})
	}
}

// mustTell wants both decisions often enough, so that agreement means something.
func mustTell(t *testing.T, denied int) {
	t.Helper()
	if denied < requestsOfARule/20 || denied > requestsOfARule*19/20 {
		t.Errorf("%d of %d requests were denied: that tells little", denied, requestsOfARule)
	}
}

// draw draws the requests of five users, in order. They are not decided yet.
func (p *peerWithRule) draw(seed uint64) iter.Seq2[int, *peerDecision] {
	return func(yield func(int, *peerDecision) bool) {
		rng := rand.New(rand.NewPCG(18, seed))
		at := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
		for i := range requestsOfARule {
			at = at.Add(peerGap(rng, p.gap, at))
			r := policies.Request{Path: p.paths[rng.IntN(len(p.paths))], User: fmt.Sprint("u", rng.IntN(5))}
			r.Route = r.Path

			if !yield(i, &peerDecision{at: at, request: r}) {
				return
			}
		}
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

// limit is a number of requests in a number of seconds.
type limit struct{ requests, seconds int }

// envoyRule is src/limiter of envoyproxy/ratelimit with a descriptor for each user and one for each route. Every descriptor is
// counted, also of a request that is denied.
func envoyRule(perUser, perRoute int) peerRule {
	byUser, byRoute := countedRule(limit{perUser, 60}), countedRule(limit{perRoute, 1})
	return func(r *policies.Request, at time.Time) bool {
		user, route := byUser(r.User, at), byRoute(r.Path, at)
		return user && route
	}
}

// countedRule counts every request in windows of whole seconds since 1970, and compares afterwards.
func countedRule(l limit) func(key string, at time.Time) bool {
	type window struct {
		key    string
		number int64
	}
	counts := map[window]int{}
	return func(key string, at time.Time) bool {
		of := window{key, at.Unix() / int64(l.seconds)}
		counts[of]++
		return counts[of] <= l.requests
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
