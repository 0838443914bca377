package importer

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// traefik collects the middlewares and the routers of dynamic configurations.
type traefik struct {
	in          *Import
	middlewares map[string]*value
	order       []string
	routers     []traefikRouter
}

// traefikRouter is a router with the condition of its rule.
type traefikRouter struct {
	*value
	name     string
	rule     expr
	priority int64
}

// readTraefik imports the middleware rateLimit, which each router has for itself.
func readTraefik(in *Import, d *disk) error {
	t := &traefik{in: in, middlewares: map[string]*value{}}
	for _, file := range in.Files {
		documents, err := d.documents(file)
		if err != nil {
			return err
		}
		for _, v := range documents {
			if err := t.document(v); err != nil {
				return err
			}
		}
	}

	slices.SortStableFunc(t.routers, func(a, b traefikRouter) int { return cmp.Compare(b.priority, a.priority) })
	t.policies()
	return nil
}

// traefikStatic are fields of the static configuration that limit nothing.
var traefikStatic = []string{
	"global", "serversTransport", "tcpServersTransport", "entryPoints", "providers", "api", "metrics", "ping", "log", "accessLog", "tracing",
	"hostResolver", "certificatesResolvers", "experimental", "core", "spiffe", "ocsp", "tls", "http", "tcp", "udp",
}

func (t *traefik) document(v *value) error {
	kind := v.get("kind")
	switch {
	case kind != nil && v.get("apiVersion") != nil && kind.text == "Middleware":
		t.middleware(v.get("metadata").str("name"), v.get("spec"))
		return nil
	case kind != nil && v.get("apiVersion") != nil:
		t.in.leave(kind.Place, "kind "+kind.text, "of Kubernetes only Middlewares are read: the policies hold for all requests")
		return nil
	case v.get("http") == nil:
		return &Error{v.place(Place{t.in.Files[0], 1}), "no dynamic configuration of Traefik: it has no http"}
	}

	t.in.unknown(v, "the field", traefikStatic...)
	for _, e := range v.get("entryPoints").entries() {
		if m := e.get("http", "middlewares"); m != nil {
			t.in.leave(m.Place, "the middlewares of the entry point "+e.key, "write their condition by hand: a policy sees no entry points")
		}
	}
	t.in.unknown(v.get("http"), "http", "routers", "middlewares", "services", "serversTransports", "models")
	for _, m := range v.get("http", "middlewares").entries() {
		t.middleware(m.key, m.value)
	}
	for _, r := range v.get("http", "routers").entries() {
		t.router(r)
	}
	return nil
}

// traefikHarmless are middlewares that do not limit requests.
var traefikHarmless = []string{
	"addPrefix", "basicAuth", "buffering", "circuitBreaker", "compress", "contentType", "digestAuth", "errors", "forwardAuth", "grpcWeb",
	"headers", "ipAllowList", "ipWhiteList", "passTLSClientCert", "plugin", "redirectRegex", "redirectScheme", "replacePath",
	"replacePathRegex", "retry", "stripPrefix", "stripPrefixRegex", "rateLimit", "chain",
}

func (t *traefik) middleware(name string, v *value) {
	t.in.unknown(v, "middleware "+name, traefikHarmless...)
	if t.middlewares[name] == nil {
		t.order = append(t.order, name)
	}
	t.middlewares[name] = v
}

// router reads a router. Without a priority the longest rule goes first.
func (t *traefik) router(r field) {
	if len(t.routers) >= mostLocations {
		t.in.leave(r.at, "router "+r.key, "more than %d routers: import a smaller configuration", mostLocations)
		return
	}

	rule, err := parseRule(r.str("rule"))
	if err != nil {
		t.in.leave(r.at, "router "+r.key, "its rule %s: %v", r.str("rule"), err)
		return
	}
	priority, _ := r.get("priority").whole()
	if priority == 0 {
		priority = int64(len(r.str("rule")))
	}
	t.routers = append(t.routers, traefikRouter{r.value, r.key, rule, priority})
}

// policies makes a policy for each router with a rateLimit, and one for a rateLimit that no router here has.
func (t *traefik) policies() {
	used := map[string]bool{}
	for i, r := range t.routers {
		var branches []branch
		for k, other := range t.routers {
			then := no
			if k == i {
				then = yes
			}
			branches = append(branches, branch{other.rule, then})
		}

		var places []int
		for _, name := range t.chained(r.get("middlewares").texts(), used, 0) {
			if at := t.policy(r.name+"-"+name, choose(branches, no), t.middlewares[name].get("rateLimit")); at >= 0 {
				places = append(places, at)
			}
		}
		t.several(r, places)
	}

	for _, name := range t.order {
		if v := t.middlewares[name].get("rateLimit"); v != nil && !used[name] {
			t.in.leave(v.Place, "middleware "+name, "no router in these files has it, so the policy holds for all requests: write its when")
			t.policy(name, yes, v)
		}
	}
}

// several makes groups of the limits of one router: Traefik asks them in order, and does not ask those behind one that refuses.
func (t *traefik) several(r traefikRouter, places []int) {
	bad := t.in.byKey(r.name+"-limits", algorithms.UntilDenied, places)
	if bad != "" {
		t.in.leave(t.in.Policies[places[1]].Place, "the limits of router "+r.name,
			"Traefik does not ask the limits behind one that refuses: %s, so as policies each is charged", bad)
	}
}

// chained returns the names of the rateLimits among some middlewares, also those of chains.
func (t *traefik) chained(names []string, used map[string]bool, depth int) (list []string) {
	for _, name := range names {
		name, _, _ = strings.Cut(name, "@")
		v := t.middlewares[name]

		if v.get("rateLimit") != nil {
			used[name] = true
			list = append(list, name)
		}

		if chain := v.get("chain"); chain != nil && depth < 4 && len(list) < mostPolicies {
			list = append(list, t.chained(chain.get("middlewares").texts(), used, depth+1)...)
		}
	}

	return list
}

// policy makes a policy of a rateLimit in a router, and returns its place, -1 if it is left out.
func (t *traefik) policy(name string, when expr, v *value) (at int) {
	t.in.unknown(v, "rateLimit", "average", "period", "burst", "sourceCriterion", "redis")
	average, fine := int64(0), true
	if a := v.get("average"); a != nil {
		average, fine = a.whole()
	}
	burst, ok := int64(1), true
	if b := v.get("burst"); b != nil {
		burst, ok = b.whole()
		burst = max(1, burst)
	}
	period, valid := traefikPeriod(v.str("period"))
	origin := fmt.Sprintf("rateLimit average: %d, period: %s, burst: %d", average, cmp.Or(v.str("period"), "1s"), burst)
	switch {
	case !fine || !ok || !valid || average > mostRate || burst > mostRate:
		t.in.leave(v.Place, origin, "no number of requests, or no period")
		return -1
	case average == 0:
		t.in.leave(v.Place, origin, "average: 0 is no limit")
		return -1
	case when == no:
		t.in.leave(v.Place, origin, "no request reaches it: the rules of other routers come first")
		return -1
	}

	key, differs := t.key(v.get("sourceCriterion"))
	p := Policy{Name: name, Place: v.Place, Origin: origin, Differs: differs, when: when, key: []expr{key}}
	if !p.bucket(average, period, burst) {
		t.in.leave(v.Place, origin, "its numbers are too large to be whole ones")
		return -1
	}
	// A bucket that is full by then needs no gift.
	seconds := time.Duration(forgets(average, period)) * time.Second
	full := float64(p.side.burst) / float64(p.side.limit) * float64(period)
	if full > float64(seconds) {
		p.side.forget = seconds
	}
	if full > float64(seconds-time.Second) {
		p.Differs = append(p.Differs, "Traefik forgets a client by whole seconds of its clock, up to a second sooner than the policy")
	}
	return t.in.add(p)
}

// traefikPeriod reads a period: a Go duration, or whole seconds.
func traefikPeriod(text string) (time.Duration, bool) {
	if text == "" {
		return time.Second, true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(n) * time.Second, n > 0 && n < mostSeconds
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= time.Microsecond && d%time.Microsecond == 0
}

// forgets returns after how many seconds without a request Traefik drops a client (rate_limiter.go).
func forgets(average int64, period time.Duration) int64 {
	if average*int64(time.Second) >= int64(period) {
		return 2
	}
	return 1 + int64(period)/(average*int64(time.Second))
}

// bucket makes the bucket of a rateLimit. It admits a request that would wait for at most the time of half a request, by the rate
// rounded down, and for at most half a second. So the bucket has that debt more than the burst, in units in which both are whole.
func (p *Policy) bucket(average int64, period time.Duration, burst int64) bool {
	rate := new(big.Rat).SetFrac(big.NewInt(average), big.NewInt(int64(period)))
	rate.Mul(rate, new(big.Rat).SetInt64(int64(time.Second)))
	longest := big.NewRat(1, 2)
	if whole := new(big.Int).Quo(rate.Num(), rate.Denom()); whole.Sign() > 0 {
		longest.SetFrac(big.NewInt(1), whole.Lsh(whole, 1))
	}

	debt := rate.Mul(rate, longest)
	units, more := debt.Denom(), debt.Num()
	limit := new(big.Int).Mul(units, big.NewInt(average))
	capacity := new(big.Int).Add(new(big.Int).Mul(units, big.NewInt(burst)), more)
	if !limit.IsInt64() || !capacity.IsInt64() || !units.IsInt64() {
		return false
	}
	p.cost = units.Int64()
	p.side = side{algorithm: "token_bucket", limit: limit.Int64(), window: period, burst: capacity.Int64()}
	p.Differs = append(p.Differs, "Traefik holds a request back for up to half of the time of one, and the policy does not")
	return true
}

// key returns the key of a source criterion; by default it is the address.
func (t *traefik) key(v *value) (key expr, differs []string) {
	t.in.unknown(v, "sourceCriterion", "ipStrategy", "requestHeaderName", "requestHost")
	if name := v.str("requestHeaderName"); name != "" {
		return headerValue(name), nil
	}
	if v.on("requestHost") {
		return requestHost, nil
	}

	strategy := v.get("ipStrategy")
	t.in.unknown(strategy, "ipStrategy", "depth", "excludedIPs", "ipv6Subnet")
	if strategy.get("depth") != nil || strategy.get("excludedIPs") != nil {
		differs = append(differs, "request.ip is the connection's address: give httplimit.Config.ClientIP the proxies of ipStrategy")
	}
	if bits, ok := strategy.get("ipv6Subnet").whole(); ok && bits > 0 && bits < 128 {
		return groupOf(requestIP, 32, int(bits)), differs
	}
	return requestIP, differs
}
