package policies

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// endless are inputs that hardly repeat, each with its remedy: every value is a key
// with a budget of its own, so no client reaches a limit.
var endless = map[string]string{
	"request.path":  "use request.route, the template",
	"request.query": "leave it out",
	"request.time":  "leave it out",
	"request.size":  "leave it out, or make it the cost",
}

// endlessHeaders are the headers whose values hardly repeat, or that clients vary at
// will. A key of one of these gives a client a fresh budget for each value that it invents.
var endlessHeaders = []string{
	"x-request-id", "x-correlation-id", "x-trace-id", "traceparent", "x-amzn-trace-id",
	"user-agent", "date", "referer", "cookie",
}

// endlessKey warns of a key that hardly repeats.
func (l *linter) endlessKey(p *Policy, at *yaml.Node) {
	for _, name := range p.key.inputs().sorted() {
		remedy, bad := endless[name]
		for _, header := range endlessHeaders {
			if name == `request.headers["`+header+`"]` {
				remedy, bad = "use what identifies the client", true
			}
		}

		// It is a warning: a service may have few values where others have endless ones.
		if bad {
			l.warn(at, "key: %s has a new value in nearly every request, and each value has its own budget: "+
				"no client is limited, and memory fills up; %s", name, remedy)
		}
	}
}

// absentKey warns of a key that fails without some entry: a client that leaves the
// entry out is not limited. It is silent where the condition asks for the entry.
func (l *linter) absentKey(p *Policy, at *yaml.Node) {
	// Under deny a request without the entry does not escape, and its client hears of it.
	if p.OnError == FailDeny {
		return
	}

	asked := inputs{}
	if p.when != nil {
		asked = p.when.inputs
	}

	for _, x := range p.key {
		for _, entry := range x.inputs.sorted() {
			if !x.inputs[required+entry] || asked[entry] {
				continue
			}

			base, key, _ := strings.Cut(strings.TrimSuffix(entry, "]"), "[")
			l.warn(at, "key: a request without %s is not charged, for its key fails: "+
				"give it a default, such as %s[?%s].orValue(\"none\")", entry, base, key)
			return // the next one would have the same remedy
		}
	}
}

// hostHeader warns of the one header that is never among the headers.
func (l *linter) hostHeader(p *Policy, at *yaml.Node) {
	for _, x := range append(slices.Clone(p.key), p.when) {
		if x != nil && x.inputs[`request.headers["host"]`] {
			l.warn(at, "request.headers[\"host\"] is always absent, for Go's server removes that header: use request.host")
			return
		}
	}
}

// addressOnlyKeys warns of keys that are an address alone in a file that knows users.
// It is silent if a policy of the file limits users, too, or the condition has looked
// at the user.
func (l *linter) addressOnlyKeys(list []*Policy, items []*yaml.Node) {
	// A login page has no user yet, so an address alone is right there: a file that limits users elsewhere has thought of it.
	readsUsers := func(in inputs) bool { return in["request.user"] || in["request.claims"] }
	limitsUsers := slices.ContainsFunc(list, func(p *Policy) bool { return readsUsers(p.key.inputs()) })
	if !l.knowsUsers || limitsUsers {
		return
	}

	for i, p := range list {
		// The address may be wrapped, as in ipGroup(request.ip): what counts is the input.
		addressOnly := len(p.key) == 1 && len(p.key[0].inputs) == 1 && p.key[0].inputs["request.ip"]
		if addressOnly && (p.when == nil || !readsUsers(p.when.inputs)) {
			l.warn(placesOf(items[i])["key"], "key: the address alone: all clients behind one address share a budget, "+
				"and a user with many addresses has many; the file knows users, so use request.user where there is one")
		}
	}
}

// limitBesideKey warns where one key can have two limits: each request brings its
// own, and the state of the key is the same.
func (l *linter) limitBesideKey(p *Policy, at places) {
	key := p.key.inputs()

	for role, side := range p.Sides {
		missing := slices.DeleteFunc(side.limitInputs().sorted(), func(name string) bool { return key[name] })
		if len(missing) > 0 {
			l.warn(at[algorithms.Role(role).String()], "the limit depends on %s, which is not part of the key: "+
				"requests of one key share a budget and bring different limits; add it to the key",
				strings.Join(missing, " and "))
			return // the other side mostly has the same expression
		}
	}
}

// limitInputs returns what the side's limit depends on.
func (s *Side) limitInputs() inputs {
	all := inputs{}
	if s == nil {
		return all
	}

	// A window cannot be an expression, so these two are all that a request can change.
	for _, x := range []*expression{s.limit.expression, s.burst.expression} {
		if x != nil {
			maps.Copy(all, x.inputs)
		}
	}
	return all
}
