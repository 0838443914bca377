package importer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// peerRule is a peer's rule, written again: whether it allows a request of a client, which come in order.
type peerRule func(path, client string, at time.Time) bool

// traffic are random requests.
type traffic struct {
	paths []string
	gap   time.Duration // the longest time between two requests, but for some pauses
	tick  time.Duration // of the peer's clock: instants are whole ticks
}

// decidesAs compares an imported file with the peer's rule, request by request, over random traffic of five clients.
func decidesAs(t *testing.T, in *Import, set *policies.Set, requests traffic, rule peerRule) {
	t.Helper()
	states := map[string]algorithms.State{}
	random := rand.New(rand.NewPCG(7, 8))
	const count = 20_000
	denied, at := 0, time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
	for i := range count {
		at = at.Add(time.Duration(random.Int64N(int64(requests.gap))))
		if random.IntN(200) == 0 {
			at = at.Add(time.Duration(random.Int64N(int64(100 * requests.gap))))
		}
		path, client := requests.paths[random.IntN(len(requests.paths))], fmt.Sprintf("10.0.0.%d", random.IntN(5))

		now := at.Truncate(requests.tick)
		got := decides(t, set, states, policies.Request{Method: "POST", Path: path, IP: client, User: client}, now)
		want := rule(path, client, now)
		if got != want {
			t.Fatalf("request %d, %s of %s at %s: the policies say %t, the peer %t\n%s", i, path, client, now, got, want, in.File)
		}
		if !got {
			denied++
		}
	}
	if denied < count/20 || denied > count*19/20 {
		t.Errorf("%d of %d requests were denied: the traffic is too thin to compare", denied, count)
	}
}

// nginx charges none of the limits of a location when one refuses (ngx_http_limit_req_account comes after all lookups).
func TestNginxChargesAllOrNothing(t *testing.T) {
	in, set := imported(t, "nginx", "nginx.conf", `limit_req_zone $binary_remote_addr zone=fast:1m rate=5r/s;
limit_req_zone $remote_addr zone=slow:1m rate=2r/s;
limit_req_zone $remote_addr zone=bulk:1m rate=1r/s;
limit_req_zone $remote_addr zone=other:1m rate=4r/s;
server {
  limit_req zone=fast burst=10 nodelay;
  location /both { limit_req zone=fast burst=10 nodelay; limit_req zone=slow burst=20; }
  location /bulk { limit_req zone=slow burst=20; limit_req zone=bulk burst=3; }
  location /other { limit_req zone=other burst=4; }
}
`)
	if got := groups(in); got != "fast-slow-bulk(all_or_nothing): fast slow bulk" || len(in.LeftOut) > 0 {
		t.Errorf("groups %s, left out %v", got, in.LeftOut)
	}

	zones := map[string]*nginxRule{
		"fast": {rate: 5000, burst: 10}, "slow": {rate: 2000, burst: 20}, "bulk": {rate: 1000, burst: 3}, "other": {rate: 4000, burst: 4},
	}
	for _, zone := range zones {
		zone.excess, zone.last = map[string]int64{}, map[string]int64{}
	}
	places := map[string][]string{"/": {"fast"}, "/both": {"fast", "slow"}, "/bulk": {"slow", "bulk"}, "/other": {"other"}}
	requests := traffic{paths: []string{"/", "/both", "/bulk", "/other"}, gap: 40 * time.Millisecond, tick: time.Millisecond}

	decidesAs(t, in, set, requests, func(path, client string, at time.Time) bool {
		var found []nginxRule
		for _, name := range places[path] {
			before := nginxRule{excess: map[string]int64{}, last: map[string]int64{}}
			before.excess[client] = zones[name].excess[client]
			last, known := zones[name].last[client]
			if known {
				before.last[client] = last
			}
			found = append(found, before)
		}

		// What a zone has counted before another one refuses is taken back.
		for i, name := range places[path] {
			if zones[name].allows(client, at.UnixMilli()) {
				continue
			}
			for k, before := range found[:i] {
				zone := zones[places[path][k]]
				delete(zone.last, client)
				zone.excess[client] = before.excess[client]
				if last, known := before.last[client]; known {
					zone.last[client] = last
				}
			}
			return false
		}
		return true
	})
}

// Kong's rate-limiting asks all periods, and counts a request in all of them once none refuses it (handler.lua).
func TestKongChargesAllOrNothing(t *testing.T) {
	in, set := imported(t, "kong", "f.yaml", "plugins: [{ name: rate-limiting, config: { minute: 2, hour: 60, month: 1500, limit_by: ip } }]")
	if got := groups(in); got != "minute-hour-month(all_or_nothing): minute hour month" || len(in.LeftOut) > 0 {
		t.Errorf("groups %s, left out %v", got, in.LeftOut)
	}

	counts := map[string]int{}
	decidesAs(t, in, set, traffic{paths: []string{"/"}, gap: 10 * time.Second}, func(_, client string, at time.Time) bool {
		windows := map[string]int{
			client + at.Format(time.DateOnly+" 15:04"): 2,
			client + at.Format(time.DateOnly+" 15"):    60,
			client + at.Format("2006-01"):              1500,
		}
		for window, most := range windows {
			if counts[window] >= most {
				return false
			}
		}
		for window := range windows {
			counts[window]++
		}
		return true
	})
}

// Limitador checks all limits whose conditions hold, and counts a request in all of them once none refuses it.
func TestLimitadorChargesAllOrNothing(t *testing.T) {
	in, set := imported(t, "limitador", "f.yaml", `
- { namespace: a, max_value: 10, seconds: 60, variables: [remote_address] }
- { namespace: a, max_value: 3, seconds: 7, conditions: ["path == '/slow'"], variables: [remote_address] }
- { namespace: b, max_value: 1000000, seconds: 60, variables: [remote_address] }
`)
	if got := groups(in); got != "a-limits(all_or_nothing): a a-2" || len(in.LeftOut) != 1 {
		t.Errorf("groups %s, left out %v", got, in.LeftOut)
	}

	type window struct {
		until time.Time
		count int
	}
	windows := map[string]window{}
	decidesAs(t, in, set, traffic{paths: []string{"/", "/slow"}, gap: 2 * time.Second}, func(path, client string, at time.Time) bool {
		found := map[string]window{}
		for name, limit := range map[string]window{"": {at.Add(time.Minute), 10}, "/slow": {at.Add(7 * time.Second), 3}} {
			if name != "" && name != path {
				continue
			}
			w := windows[name+client]
			if !w.until.After(at) {
				w = window{until: limit.until}
			}
			if w.count >= limit.count {
				return false
			}
			w.count++
			found[name+client] = w
		}
		for name, w := range found {
			windows[name] = w
		}
		return true
	})
}

// groups lists the groups of a file with their members.
func groups(in *Import) (text string) {
	for _, p := range in.Policies {
		if p.Group == nil {
			continue
		}
		name := fmt.Sprintf("%s(%s):", p.Group.Name, p.Group.Charge)
		if !strings.Contains(text, name) {
			text = strings.TrimSpace(text + " " + name)
		}
		text += " " + p.Name
	}
	return text
}

// What no group can be is named, and each policy stays alone.
func TestNoGroup(t *testing.T) {
	nine := ""
	for i := range 9 {
		nine += fmt.Sprintf("- { namespace: a, max_value: %d, seconds: %d, variables: [path] }\n", i+1, i+1)
	}

	for _, c := range []struct {
		peer, text string
		line       int
		what, why  string
	}{
		{
			"nginx", "limit_req_zone $remote_addr zone=a:1m rate=1r/s;\nlimit_req_zone $host zone=b:1m rate=1r/s;\n" +
				"limit_req zone=a;\nlimit_req zone=b;",
			4, "limit_req of a and b", "they have different keys, and a group has one",
		},
		{
			"haproxy", "frontend f\n stick-table store http_req_rate(1s)\nbackend b\n stick-table store http_req_rate(1s)\nfrontend g\n" +
				" http-request track-sc0 src table f\n http-request deny if { sc_http_req_rate(0) gt 5 }\n" +
				" http-request track-sc1 path table b\n http-request deny if { sc_http_req_rate(1) gt 5 }",
			9, "sc_http_req_rate(1)", "does not count here what the limit of line 7 has denied: their keys differ",
		},
		{
			"haproxy", "frontend f\n stick-table store http_req_rate(1s)\nbackend b\n stick-table store http_req_rate(1s)\nfrontend g\n" +
				" http-request deny if { src_http_req_rate(f) gt 5 }\n http-request track-sc1 src table b\n" +
				" http-request deny if { sc_http_req_rate(1) gt 5 }\n http-request track-sc0 src table f",
			8, "sc_http_req_rate(1)", "the order of their rules is that of no group",
		},
		{"limitador", nine, 2, "the limits of namespace a", "a group has at most 8 limits"},
		{
			"limitador", "- { namespace: a, max_value: 1, seconds: 1, variables: [path] }\n- { namespace: a, max_value: 1, seconds: 9 }",
			2, "the limits of namespace a", "they have different keys",
		},
		{
			"kong", "plugins:\n- name: rate-limiting-advanced\n  config: { limit: [1, 9], window_size: [1, 60] }",
			3, "2 limits in one plugin", "documentation does not say",
		},
		{
			"traefik", "http:\n  routers: { r: { rule: \"Path(`/`)\", middlewares: [a, b] } }\n  middlewares:\n" +
				"    a: { rateLimit: { average: 1 } }\n    b: { rateLimit: { average: 1, sourceCriterion: { requestHost: true } } }",
			5, "the limits of router r", "they have different keys",
		},
	} {
		in, _ := imported(t, c.peer, "f.yaml", c.text)

		lacks(t, in, c.line, c.what, c.why)
		if got := groups(in); got != "" {
			t.Errorf("%s\nhas groups %s", c.text, got)
		}
	}
}

// A group has one cost. Its members decide as before in smaller parts of a request, as long as their algorithms take the numbers.
func TestGroupInOneUnit(t *testing.T) {
	for largest, want := range map[int64]string{15: "cost 30: 300, 600", 1<<46 + 1: "cost 6: 60, 1407374883553300"} {
		bucket := func(cost int64) Policy {
			return Policy{cost: cost, key: []expr{requestIP}, side: side{
				algorithm: "token_bucket", limit: 10 * cost, window: time.Second, burst: 50 * cost,
			}}
		}
		in := &Import{Policies: []Policy{bucket(6), bucket(largest)}}
		in.Policies[1].side.limit *= 2

		bad := in.together("g", algorithms.UntilDenied, []int{0, 1})
		a, b := in.Policies[0], in.Policies[1]
		if got := fmt.Sprintf("cost %d: %d, %d", a.cost, a.side.limit, b.side.limit); (bad == "") != (a.Group != nil) || got != want {
			t.Errorf("%s (%s), want %s", got, bad, want)
		}
	}
}

// A group of which all but one member are refused is a policy.
func TestGroupOfOneIsAPolicy(t *testing.T) {
	in, _ := imported(t, "limitador", "f.yaml", `
- { namespace: a, max_value: 1, seconds: 1, conditions: ['f(1)'], variables: [path] }
- { namespace: a, max_value: 9, seconds: 60, variables: [path] }
`)
	lacks(t, in, 2, "max_value: 1", "no policy can have it")
	if len(in.Policies) != 1 || in.Policies[0].Group != nil || !strings.Contains(in.File, "key: variables.sent_path") {
		t.Errorf("%s", in.File)
	}
}

// traefikBucket is the bucket of a client in pkg/middlewares/ratelimiter, in 72nds of a request: its rates refill whole ones in a second.
type traefikBucket struct {
	tokens, last, expires int64 // at, and as, whole seconds
}

// traefikLimit is a rateLimit in 72nds of a request.
type traefikLimit struct{ perSecond, burst, maxDebt, ttl int64 }

// allows is x/time/rate, from which Traefik takes a token that is there within maxDelay. Every request is remembered for ttl seconds.
func (l traefikLimit) allows(b *traefikBucket, now int64) bool {
	if b.expires <= now {
		*b = traefikBucket{tokens: l.burst, last: now}
	}
	b.expires = now + l.ttl
	b.tokens, b.last = min(l.burst, b.tokens+(now-b.last)*l.perSecond), now
	if b.tokens-72 < -l.maxDebt {
		return false
	}
	b.tokens -= 72
	return true
}

// Traefik forgets clients that pause, and asks the limits of a chain in order: each one that admits a request has counted it.
func TestTraefikDecidesAsItsRule(t *testing.T) {
	in, set := imported(t, "traefik", "f.yaml", `
http:
  routers:
    r: { rule: "PathPrefix(`+"`/`"+`)", middlewares: [both] }
  middlewares:
    both: { chain: { middlewares: [slow, fast] } }
    slow: { rateLimit: { average: 20, period: 1m, burst: 12 } }
    fast: { rateLimit: { average: 1, burst: 3 } }
`)
	if got := groups(in); got != "r-limits(until_denied): r-slow r-fast" || len(in.LeftOut) > 0 {
		t.Errorf("groups %s, left out %v", got, in.LeftOut)
	}

	// A third of a request a second may lack the part of 500 ms, which is a sixth. A request a second may lack a half.
	slow, fast := traefikLimit{24, 12 * 72, 12, 4}, traefikLimit{72, 3 * 72, 36, 2}
	buckets := map[string]*[2]traefikBucket{}
	requests := traffic{paths: []string{"/"}, gap: 400 * time.Millisecond, tick: time.Second}
	decidesAs(t, in, set, requests, func(_, client string, at time.Time) bool {
		if buckets[client] == nil {
			buckets[client] = &[2]traefikBucket{}
		}
		b := buckets[client]
		return slow.allows(&b[0], at.Unix()) && fast.allows(&b[1], at.Unix())
	})
}
