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
	tick  time.Duration // of the peer's clock and of its log: instants are whole ticks
}

// peerRules have models that decide every request as they do.
var peerRules = []peerWithRule{
	{"aws-api-gateway", 20 * time.Minute, []string{"/week"}, quotaRule(80), 0},
	{"kong", 12 * time.Millisecond, []string{"/second"}, kongRule(map[string]int{"second": 5}), 0},
	{"kong", 60 * time.Millisecond, []string{"/minute"}, kongRule(map[string]int{"minute": 60}), 0},
	{"kong", 60 * time.Millisecond, []string{"/both"}, kongRule(map[string]int{"second": 5, "minute": 60}), 0},
	{"kong", time.Hour, []string{"/month"}, kongRule(map[string]int{"month": 100}), 0},
	{"kong", 4 * time.Hour, []string{"/year"}, kongRule(map[string]int{"year": 300}), 0},
	{"kong-advanced", 150 * time.Millisecond, []string{"/fixed"}, rackRule(limit{60, 60}), 0},
	{"kong-advanced", 150 * time.Millisecond, []string{"/sliding"}, kongSliding(60, 60, true), time.Second},
	{"kong-advanced", 150 * time.Millisecond, []string{"/forgiving"}, kongSliding(60, 60, false), time.Second},
	{"haproxy", 90 * time.Millisecond, []string{"/counted"}, haproxyRule(20, 10_000, true, false), time.Millisecond},
	{"haproxy", 60 * time.Millisecond, []string{"/passed"}, haproxyRule(20, 10_000, false, false), time.Millisecond},
	{"haproxy", 36 * time.Millisecond, []string{"/counted-second"}, haproxyRule(5, 1000, true, false), time.Millisecond},
	{"haproxy", 30 * time.Millisecond, []string{"/passed-second"}, haproxyRule(5, 1000, false, false), time.Millisecond},
	{"limitador", 400 * time.Millisecond, []string{"/"}, anchoredRule(limit{10, 60}), 0},
	{"limitador", 400 * time.Millisecond, []string{"/both"}, anchoredRule(limit{10, 60}, limit{3, 7}), 0},
	{"express-rate-limit", 400 * time.Millisecond, []string{"/"}, anchoredRule(limit{10, 60}), 0},
	{"envoy-ratelimit", 200 * time.Millisecond, []string{"/a", "/b", "/c", "/bulk"}, envoyRule(60, 8), 0},
	{"django-ratelimit", 60 * time.Millisecond, []string{"/second"}, djangoRule(5, 1), 0},
	{"rack-attack", 200 * time.Millisecond, []string{"/"}, rackRule(limit{20, 60}), 0},
	{"rack-attack", 400 * time.Millisecond, []string{"/both"}, rackRule(limit{20, 60}, limit{3, 7}), 0},
	{"spring-cloud-gateway", 12 * time.Millisecond, []string{"/"}, springRule(10, 20), 0},
	{"traefik", 6 * time.Millisecond, []string{"/"}, traefikRule(10, 20, time.Second), time.Second},
	{"traefik", 800 * time.Millisecond, []string{"/slow"}, traefikRule(6, 12, time.Minute), time.Second},
	{"x-time-rate", 6 * time.Millisecond, []string{"/"}, timeRule(10, 20), 0},
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

			// A tick of 0 changes nothing.
			if !yield(i, &peerDecision{at: at.Truncate(p.tick), request: r}) {
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

// anchoredRule is limitador/src/storage/in_memory.rs, and with one limit the MemoryStore of express-rate-limit: a window that is
// over at its end is replaced by one that begins with this request, and one limit that refuses leaves all of them alone.
func anchoredRule(limits ...limit) peerRule {
	type counter struct {
		user string
		limit
	}
	type open struct {
		until time.Time
		hits  int
	}
	windows := map[counter]open{}
	return func(r *policies.Request, at time.Time) bool {
		var found []open
		for _, l := range limits {
			w := windows[counter{r.User, l}]
			if !w.until.After(at) {
				w = open{until: at.Add(time.Duration(l.seconds) * time.Second)}
			}
			if w.hits+1 > l.requests {
				return false
			}
			found = append(found, w)
		}

		for i, w := range found {
			w.hits++
			windows[counter{r.User, limits[i]}] = w
		}
		return true
	}
}

// envoyRule is src/limiter of envoyproxy/ratelimit with a descriptor for each user and one for each route. Every descriptor is
// counted, also of a request that is denied. A request to /bulk has hits_addend: 5.
func envoyRule(perUser, perRoute int) peerRule {
	byUser, byRoute := countedRule(limit{perUser, 60}), countedRule(limit{perRoute, 1})
	return func(r *policies.Request, at time.Time) bool {
		hits := 1
		if r.Path == "/bulk" {
			hits = 5
		}
		user, route := byUser(r.User, hits, at), byRoute(r.Path, hits, at)
		return user && route
	}
}

// quotaRule is a usage plan's quota of a WEEK with offset 1, as AWS documents it.
func quotaRule(limit int) peerRule {
	counts := map[windowCount]int{}
	return func(r *policies.Request, at time.Time) bool {
		sinceMonday := (int(at.Weekday()) + 6) % 7
		of := windowCount{r.User, time.Date(at.Year(), at.Month(), at.Day()-sinceMonday, 0, 0, 0, 0, time.UTC).Unix()}
		counts[of]++
		return counts[of] <= limit
	}
}

// rackRule is lib/rack/attack/throttle.rb and configuration.rb: each throttle counts and then compares, and those after the
// first that refuses are not asked.
func rackRule(throttles ...limit) peerRule {
	var all []func(string, int, time.Time) bool
	for _, l := range throttles {
		all = append(all, countedRule(l))
	}
	return func(r *policies.Request, at time.Time) bool {
		for _, allows := range all {
			if !allows(r.User, 1, at) {
				return false
			}
		}
		return true
	}
}

// countedRule counts every request in windows of whole seconds since 1970, and compares afterwards.
func countedRule(l limit) func(key string, hits int, at time.Time) bool {
	counts := map[windowCount]int{}
	return func(key string, hits int, at time.Time) bool {
		of := windowCount{key, at.Unix() / int64(l.seconds)}
		counts[of] += hits
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
