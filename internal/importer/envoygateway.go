package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// envoyGateway reads an object of Kubernetes: the rules of a BackendTrafficPolicy of Envoy Gateway. Which descriptors its controller
// makes of them is its own business, so their policies are switched off like those of other peers.
func envoyGateway(in *Import, v *value) error {
	switch kind := v.get("kind"); {
	case kind == nil:
		return &Error{v.Place, "an object of Kubernetes without a kind"}
	case kind.text == "BackendTrafficPolicy":
	case slices.Contains(envoyBeside, kind.text):
		return nil
	default:
		return &Error{kind.Place, "kind " + shown(kind.text) + " is no configuration of envoyproxy/ratelimit, which has domain and descriptors, " +
			"and no BackendTrafficPolicy of Envoy Gateway"}
	}

	name, limits := v.get("metadata").str("name"), v.get("spec", "rateLimit")
	for _, rule := range limits.get("local", "rules").items() {
		limit := rule.get("limit")
		in.leave(limit.place(rule.Place), name+limit.described("requests", "unit"), "a local limit: each Envoy fills a bucket of its own by a timer. "+
			"A token_bucket with this limit, window and burst is the nearest, times the number of Envoys")
	}
	for i, rule := range limits.get("global", "rules").items() {
		gatewayRule(in, v, name, i, rule)
	}
	return nil
}

// envoyBeside are kinds without limits that stand beside them in files of Envoy Gateway.
var envoyBeside = []string{"HTTPRoute", "GRPCRoute", "Gateway", "GatewayClass", "ClientTrafficPolicy", "SecurityPolicy", "Service", "Namespace"}

// gatewayRule makes policies of a global rule, one for each of its selectors: a request that any of them takes is counted by it.
func gatewayRule(in *Import, v *value, name string, i int, rule *value) {
	in.unknown(rule, "the field", "clientSelectors", "limit", "shared", "cost", "shadowMode", "name")
	limit := rule.get("limit")
	origin := fmt.Sprintf("%s: %s per %s", name, limit.str("requests"), limit.str("unit"))
	n, ok := limit.get("requests").whole()
	window := envoyUnits[strings.ToLower(limit.str("unit"))]
	switch {
	case !ok || window == 0:
		in.leave(limit.place(rule.Place), origin, "no number of requests, or no unit")
		return
	case rule.on("shadowMode"):
		in.leave(limit.Place, origin, "shadowMode: it counts and denies nothing: try it as a candidate, fixed_window:%d/%s", n, algorithms.FormatWindow(window))
		return
	}
	if cost := rule.get("cost"); cost != nil {
		in.leave(cost.Place, origin+" cost", "the cost of a request is not read: write it as the policy's cost")
	}

	selectors := rule.get("clientSelectors").items()
	if len(selectors) == 0 {
		selectors = []*value{nil} // every request
	}
	for _, s := range selectors {
		p := Policy{
			Name: fmt.Sprintf("%s-%d", name, i), Place: limit.Place, Origin: origin,
			Where: []string{"all of" + gatewayTargets(v.get("spec"))}, side: side{algorithm: "fixed_window", limit: n, window: window},
		}
		if !rule.on("shared") {
			p.Where = append(p.Where, "each route has a count of its own")
		}
		if s != nil {
			var b strings.Builder
			s.brief(&b)
			p.Where = append(p.Where, "requests with "+b.String())
		}
		for _, h := range s.get("headers").items() {
			if strings.EqualFold(h.str("type"), "Distinct") {
				p.key = append(p.key, headerKey(h.str("name")))
			}
		}
		if strings.EqualFold(s.get("sourceCIDR").str("type"), "Distinct") {
			p.key = append(p.key, requestIP)
		}
		if len(p.key) == 0 {
			p.key = []string{strconv.Quote("all")}
		}
		in.add(p)
	}
}

// gatewayTargets names what a policy of Envoy Gateway is for.
func gatewayTargets(spec *value) string {
	var b strings.Builder
	targets := spec.get("targetRefs").items()
	if one := spec.get("targetRef"); one != nil {
		targets = append(targets, one)
	}
	for _, t := range targets {
		fmt.Fprintf(&b, " %s %s", t.str("kind"), t.str("name"))
	}
	if b.Len() == 0 {
		return spec.described("targetSelectors")
	}
	return b.String()
}
