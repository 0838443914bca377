package importer

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// traefik collects the middlewares and the routers of dynamic configurations.
type traefik struct {
	in          *Import
	middlewares map[string]*value
	order       []string
	routers     []traefikRouter
}

// traefikRouter is a router, or what applies middlewares to all routers of an entry point.
type traefikRouter struct {
	Place
	name, where string
	middlewares []string
}

// readTraefik imports the middleware rateLimit.
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
	return t.policies()
}

func (t *traefik) document(v *value) error {
	kind := v.get("kind")
	switch {
	case kind != nil && v.get("apiVersion") != nil && kind.text == "Middleware":
		name := v.get("metadata").str("name")
		if namespace := v.get("metadata").str("namespace"); namespace != "" {
			name = namespace + "/" + name
		}
		return t.middleware(name, v.get("spec"))
	case kind != nil && v.get("apiVersion") != nil:
		t.in.leave(kind.Place, "kind "+kind.text, "of Kubernetes only Middlewares are read")
		return nil
	case v.get("http") == nil && v.get("entryPoints") == nil:
		return &Error{v.place(Place{t.in.Files[0], 1}), "no dynamic configuration of Traefik: it has no http"}
	}

	for _, m := range v.get("http", "middlewares").entries() {
		if err := t.middleware(m.key, m.value); err != nil {
			return err
		}
	}
	for _, e := range v.get("entryPoints").entries() {
		if m := e.get("http", "middlewares"); m != nil {
			t.router(traefikRouter{e.at, e.key, fmt.Sprintf("entry point %s: each router of it has a budget (%s)", e.key, m.Place), m.texts()})
		}
	}
	for _, r := range v.get("http", "routers").entries() {
		where := fmt.Sprintf("router %s%s (%s)", r.key, r.described("rule", "entryPoints", "priority", "tls"), r.at)
		t.router(traefikRouter{r.at, r.key, where, r.get("middlewares").texts()})
	}
	return nil
}

func (t *traefik) router(r traefikRouter) {
	if len(t.routers) >= mostItems {
		t.in.leave(r.Place, "router "+r.name, "more than %d routers: import a smaller configuration", mostItems)
		return
	}
	t.routers = append(t.routers, r)
}

func (t *traefik) middleware(name string, v *value) error {
	if other := t.middlewares[name]; other != nil {
		return &Error{v.place(other.Place), "middleware " + shown(name) + " is there already, at " + other.Place.String()}
	}
	if v == nil {
		return nil
	}
	if f := v.get("inFlightReq"); f != nil {
		t.in.leave(f.Place, "middleware "+name, "inFlightReq limits requests at one time, not their rate")
	}
	t.middlewares[name], t.order = v, append(t.order, name)
	return nil
}

// policies makes the policies: a rateLimit has a budget in each router that has it, and with redis one for all of them.
func (t *traefik) policies() error {
	of := map[string][]traefikRouter{}
	for _, r := range t.routers {
		seen := map[string]bool{}
		for _, name := range t.chained(r.middlewares, seen) {
			of[name] = append(of[name], r)
		}
		if len(seen) >= mostItems {
			return &Error{r.Place, fmt.Sprintf("more than %d middlewares of one router", mostItems)}
		}
	}

	for _, name := range t.order {
		limit, routers := t.middlewares[name].get("rateLimit"), of[name]
		switch {
		case limit == nil:
		case len(routers) == 0:
			t.policy(name, limit, "no router in these files has middleware "+name)
		case limit.get("redis") != nil:
			where := []string{"redis: one budget for all routers with middleware " + name}
			for _, r := range routers {
				where = append(where, r.where)
			}
			t.policy(name, limit, where...)
		default:
			for _, r := range routers {
				t.policy(r.name+"-"+name, limit, r.where)
			}
		}
	}
	return nil
}

// chained returns the names of the rateLimits among some middlewares, also those of chains.
func (t *traefik) chained(names []string, seen map[string]bool) (list []string) {
	for _, name := range names {
		name, _, _ = strings.Cut(name, "@")
		if seen[name] || len(seen) >= mostItems {
			continue
		}
		seen[name] = true
		if v := t.middlewares[name]; v.get("rateLimit") != nil {
			list = append(list, name)
		} else {
			list = append(list, t.chained(v.get("chain", "middlewares").texts(), seen)...)
		}
	}
	return list
}

// policy makes a policy of a rateLimit.
func (t *traefik) policy(name string, v *value, where ...string) {
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
		return
	case average == 0:
		t.in.leave(v.Place, origin, "average: 0 is no limit")
		return
	}
	key, bad := t.key(v.get("sourceCriterion"))
	p := Policy{
		Name: name, Place: v.Place, Origin: origin, Where: where, key: []string{key}, bad: bad,
		side: side{algorithm: "token_bucket", limit: average, window: period, burst: burst},
	}
	if v.get("sourceCriterion", "ipStrategy", "depth") != nil || v.get("sourceCriterion", "ipStrategy", "excludedIPs") != nil {
		p.Differs = append(p.Differs, "request.ip is the connection's address: give httplimit.Config.ClientIP the proxies of ipStrategy")
	}
	if seconds := forgets(average, period); float64(burst)/float64(average)*period.Seconds() > float64(seconds-1) {
		p.Differs = append(p.Differs, fmt.Sprintf("Traefik forgets a client without requests after %d s, and it then has its whole burst again", seconds))
	}
	t.in.add(p)
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

// key returns the key of a source criterion; by default it is the address.
func (t *traefik) key(v *value) (key, bad string) {
	t.in.unknown(v, "sourceCriterion", "ipStrategy", "requestHeaderName", "requestHost")
	t.in.unknown(v.get("ipStrategy"), "ipStrategy", "depth", "excludedIPs", "ipv6Subnet")
	bits := v.get("ipStrategy").str("ipv6Subnet")
	switch name := v.str("requestHeaderName"); {
	case name != "":
		return headerKey(name), ""
	case v.on("requestHost"):
		return requestHost, ""
	case bits != "":
		return "", "its key is a network, as in ipGroup(request.ip, 32, " + bits + ")"
	}
	return requestIP, ""
}
