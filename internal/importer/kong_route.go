package importer

import (
	"cmp"
	"slices"
	"strings"
)

var requestUser = expr{"request.user", atom}

// key returns the key of a plugin: what it limits by, and the address where the request has none of it.
func (k *kong) key(p *kongPlugin, config *value) (key expr, bad string) {
	by := cmp.Or(config.str("limit_by"), config.str("identifier"), "consumer")

	// Kong limits by the address where a request has no such value.
	orAddress := func(value expr) expr { return oneChoice(equals(value, literal("")), requestIP, value) }
	switch by {
	case "consumer", "credential":
		return orAddress(requestUser), ""
	case "ip":
		return requestIP, ""
	case "header":
		return orAddress(headerValue(config.str("header_name"))), ""
	case "path":
		path := literal(config.str("path"))
		return oneChoice(equals(requestPath, path), path, requestIP), ""
	case "service":
		if p.service != "" {
			return literal(p.service), ""
		}
	}
	return expr{}, "limit_by " + by + " of this plugin is no part of a request that a policy sees"
}

// condition returns the condition of the requests that a plugin is configured for.
func (k *kong) condition(p *kongPlugin) expr {
	when := yes
	if p.consumer != "" {
		when = equals(requestUser, literal(p.consumer))
	}

	switch {
	case p.route != "":
		return and(when, k.byRoute(func(r *kongRoute) bool { return r.name == p.route }))
	case p.service != "":
		return and(when, k.byRoute(func(r *kongRoute) bool { return r.service == p.service }))
	}

	return when
}

// kongMatch is one path of a route with the weight that the route has for it.
type kongMatch struct {
	branch
	attributes int
	pattern    bool
	length     int
}

// byRoute returns the condition that Kong takes one of some routes. It prefers routes with more attributes, then regular
// expressions, then longer paths (kong/router/traditional.lua).
func (k *kong) byRoute(wanted func(*kongRoute) bool) expr {
	var matches []kongMatch
	for _, r := range k.routes {
		then := no
		if wanted(r) {
			then = yes
		}
		matches = append(matches, k.matches(r, then)...)
	}

	slices.SortStableFunc(matches, func(a, b kongMatch) int {
		patterns := 0
		if a.pattern != b.pattern {
			patterns = 1
			if a.pattern {
				patterns = -1
			}
		}
		return cmp.Or(cmp.Compare(b.attributes, a.attributes), patterns, cmp.Compare(b.length, a.length))
	})
	var branches []branch
	for _, m := range matches {
		branches = append(branches, m.branch)
	}
	return choose(branches, no)
}

// matches returns the conditions of a route, one for each path.
func (k *kong) matches(r *kongRoute, then expr) (list []kongMatch) {
	when, attributes := yes, 0
	add := func(e expr) { when, attributes = and(when, e), attributes+1 }
	if hosts := r.get("hosts").texts(); len(hosts) > 0 {
		add(hostsOf(hosts))
	}
	if methods := r.get("methods").texts(); len(methods) > 0 {
		add(oneOf(expr{"request.method", atom}, methods))
	}
	for _, h := range r.get("headers").entries() {
		add(oneOf(headerValue(h.key), h.texts()))
	}
	for _, name := range []string{"snis", "sources", "destinations", "expression"} {
		if v := r.get(name); v != nil && v.kind != none {
			k.in.leave(v.Place, "route "+r.name+" "+name, "a policy does not see it: the condition goes by the rest of the route")
		}
	}

	paths := r.get("paths").texts()
	if len(paths) == 0 {
		return []kongMatch{{branch: branch{when, then}, attributes: attributes}}
	}
	for _, path := range paths {
		pattern, isPattern := strings.CutPrefix(path, "~")
		condition := hasPrefix(requestPath, path)
		if path == "/" {
			condition = yes
		}
		if isPattern {
			condition = matches(requestPath, "^(?:"+pattern+")")
			if condition == no {
				k.in.leave(r.get("paths").Place, "path "+path, "no regular expression of RE2: its requests count as another route's")
			}
		}
		list = append(list, kongMatch{branch{and(when, condition), then}, attributes + 1, isPattern, len(path)})
	}
	return list
}

// hostsOf returns the condition of hosts, which may begin or end with a wildcard.
func hostsOf(hosts []string) expr {
	// Hosts without a wildcard are one list, which reads better than a chain of comparisons.
	when := no
	var exact []string
	for _, host := range hosts {
		host = strings.ToLower(host)
		switch {
		case strings.HasPrefix(host, "*."):
			when = or(when, requestHost.call("endsWith", literal(host[1:]).text))
		case strings.HasSuffix(host, ".*"):
			when = or(when, hasPrefix(requestHost, strings.TrimSuffix(host, "*")))
		default:
			exact = append(exact, host)
		}
	}

	if len(exact) > 0 {
		when = or(oneOf(requestHost, exact), when)
	}
	return when
}
