package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// warn notes a warning at a node.
func (d *document) warn(n *yaml.Node, format string, args ...any) {
	if n == nil {
		return
	}
	d.List = append(d.List, Problem{SeverityWarning, n.Line, n.Column, fmt.Sprintf(format, args...)})
}

// lint warns of what is allowed and seldom meant. nodes are the policy's fields.
func (d *document) lint(p *Policy, nodes map[string]*yaml.Node) {
	if d.Failed() {
		return
	}
	d.lintKey(p, nodes["key"])
	d.lintAbsent(p, nodes["key"])
	d.lintCondition(p, nodes["when"])
	d.lintLimits(p, nodes)
	d.lintCost(p, nodes["cost"])
	d.lintHostile(p, nodes)
	d.lintSize(p, nodes)
	d.lintHost(p, nodes)
	candidate := p.Sides[algorithms.Candidate]
	if candidate == nil {
		return
	}
	if algorithms.TraitsOf(candidate.Algorithm).Shape == algorithms.AlignedWindow && candidate.window > time.Minute {
		d.warn(nodes["candidate"], "windows of %s are aligned: every key is reset in the same instant, and clients come back all at once; take sliding_window_counter or fixed_window_anchored", algorithms.FormatWindow(candidate.window))
	}
	if authoritative := p.Sides[algorithms.Authoritative]; authoritative.sameAs(candidate) {
		d.warn(nodes["candidate"], "the candidate is the authoritative: they can never differ; change one, or leave the candidate out")
	}
}

// sameAs reports whether two sides decide alike whatever their ids.
func (s *Side) sameAs(other *Side) bool {
	a, b := *s, *other
	a.ID, b.ID = "", ""
	return a.identity() == b.identity()
}

// endless are inputs with ever new values: each makes a key of its own, which
// limits nobody.
var endless = map[string]string{
	"request.path":  "take request.route, the template",
	"request.query": "leave it out",
	"request.time":  "leave it out",
	"request.size":  "leave it out, or make it the cost",
}

// endlessHeaders are those of them that headers carry.
var endlessHeaders = []string{"x-request-id", "x-correlation-id", "x-trace-id", "traceparent", "x-amzn-trace-id", "user-agent", "date", "referer", "cookie"}

func (d *document) lintKey(p *Policy, n *yaml.Node) {
	read := inputs{}
	for _, x := range p.key {
		for name := range x.inputs {
			read[name] = true
		}
	}
	for _, name := range read.sorted() {
		remedy, bad := endless[name]
		for _, header := range endlessHeaders {
			if name == `request.headers["`+header+`"]` {
				remedy, bad = "take what says who the client is", true
			}
		}
		if bad {
			d.warn(n, "key: %s has ever new values, and each has a budget of its own: nobody is limited, and memory fills; %s", name, remedy)
		}
	}
}

// lintAbsent warns of keys that a request without some header cannot be given.
func (d *document) lintAbsent(p *Policy, n *yaml.Node) {
	guards := inputs{}
	if p.OnError == FailDeny {
		return
	}
	if p.when != nil {
		guards = p.when.inputs
	}
	for _, x := range p.key {
		for name := range x.inputs {
			entry, found := strings.CutPrefix(name, must)
			if found && !guards[entry] {
				base, key, _ := strings.Cut(strings.TrimSuffix(entry, "]"), "[")
				d.warn(n, "key: a request without %s is not charged at all; say what its key is: %s[?%s].orValue(\"none\")", entry, base, key)
				return
			}
		}
	}
}

// lintAddresses warns of keys that are an address alone in a file that knows users,
// unless a policy of it limits users, too, or the condition has looked at the user.
func (d *document) lintAddresses(list []*Policy, keys []*yaml.Node) {
	knowsUsers := func(in inputs) bool { return in["request.user"] || in["request.claims"] }
	for _, p := range list {
		if slices.ContainsFunc(p.key, func(x *expression) bool { return knowsUsers(x.inputs) }) {
			return
		}
	}
	for i, p := range list {
		addressOnly := len(p.key) == 1 && len(p.key[0].inputs) == 1 && p.key[0].inputs["request.ip"]
		if addressOnly && d.identified && (p.when == nil || !knowsUsers(p.when.inputs)) {
			d.warn(keys[i], "key: the address alone: all behind one address share a budget, and one user with many addresses has many; the file knows users, so take request.user where there is one")
		}
	}
}

func (d *document) lintCondition(p *Policy, n *yaml.Node) {
	if p.when == nil {
		return
	}
	if strings.TrimSpace(p.when.source) == "false" || contradict(p.when.filters) {
		d.warn(n, "when: no request can match: the policy is never charged")
	}
}

// lintShadowed warns of a policy that never has the last word: another one charges
// at least the same requests by the same key, with limits no higher.
func (d *document) lintShadowed(list []*Policy, items []*yaml.Node) {
	for i, p := range list {
		for j, q := range list {
			if i != j && p.shadowedBy(q) && (i > j || !q.shadowedBy(p)) {
				d.warn(items[i], "%s: what it denies %s denies, too, for it has the same key and limits that are no higher: leave one out", p.Name, q.Name)
				break
			}
		}
	}
}

func (p *Policy) shadowedBy(q *Policy) bool {
	sameRequests := q.when == nil || p.when != nil && p.when.source == q.when.source
	if !sameRequests || p.key.text() != q.key.text() || p.cost.text() != q.cost.text() {
		return false
	}
	for role, side := range p.Sides {
		if side != nil && (q.Sides[role] == nil || !side.looserThan(q.Sides[role])) {
			return false
		}
	}
	return true
}

// looserThan reports whether two sides differ at most in numbers, none of them
// lower here.
func (s *Side) looserThan(other *Side) bool {
	if s.Foreign() || other.Foreign() || s.limit.expression != nil || other.limit.expression != nil || s.burst.text() != other.burst.text() {
		return false
	}
	return s.Algorithm.Name() == other.Algorithm.Name() && s.window == other.window && s.limit.constant >= other.limit.constant
}

// lintCost warns of a cost that no bucket holds.
func (d *document) lintCost(p *Policy, n *yaml.Node) {
	for role, side := range p.Sides {
		if side == nil || side.Foreign() || p.cost.expression != nil || side.limit.expression != nil || side.burst.expression != nil {
			continue
		}
		limit := algorithms.Limit{Requests: side.limit.constant, Burst: side.burst.constant}
		if most := limit.Capacity(); p.cost.constant > most {
			d.warn(n, "cost: %d is more than the %s ever allows at once, %d: every request is denied", p.cost.constant, algorithms.Role(role), most)
			return
		}
	}
}

// The gate's constants, as far as they decide what can be reached at all: every
// hour of the day must have been seen, and a threshold below 1/9 takes a score of
// 20, which are 20 blocks without any difference.
const (
	leastSoak     = 24 * time.Hour
	leastBlocks   = 20
	evidenceIsFor = 32 * 24 * time.Hour
)

// lintPromotion warns of numbers that keep a policy from ever passing, or that
// others overrule.
func (d *document) lintPromotion(p Promotion, n *yaml.Node) {
	soak := cmp.Or(p.Soak, 2*leastSoak)
	if p.Sample > 0 && p.Sample < 1 && p.Mode == "automatic" {
		d.warn(n, "sample: a sampled policy does not leave shadow: mode automatic moves nothing; leave one of them out")
	}
	for _, x := range p.expected {
		if x.when != nil && strings.TrimSpace(x.when.source) == "true" {
			d.warn(n, "expected: when true declares every difference in the direction %s: nothing counts against the candidate there; say for whom it is wanted", x.direction)
		}
	}
	switch {
	case soak < leastSoak:
		d.warn(n, "soak: every hour of the day must have been seen, so nothing passes before 24h: %s is as good as 24h", algorithms.FormatWindow(soak))
	case p.Block > soak:
		d.warn(n, "block: no block of %s ends within a soak of %s: take shorter blocks", algorithms.FormatWindow(p.Block), algorithms.FormatWindow(soak))
	}
	if p.Block*leastBlocks > evidenceIsFor { // divergence and newly denied are seldom above 1/9
		d.warn(n, "block: the thresholds cannot be reached: that takes at least %d blocks of %s, and evidence is kept for 32 days", leastBlocks, algorithms.FormatWindow(p.Block))
	}
	if denials := cmp.Or(p.MinDenials, 200); p.MinDeniedKeys > denials {
		d.warn(n, "min_denied_keys: %d keys are not denied in fewer than %d denials: min_denials %d decides nothing", p.MinDeniedKeys, p.MinDeniedKeys, denials)
	}
}

// lintLimits warns where one key can have two limits.
func (d *document) lintLimits(p *Policy, nodes map[string]*yaml.Node) {
	key := inputs{}
	for _, x := range p.key {
		for name := range x.inputs {
			key[name] = true
		}
	}
	for role, side := range p.Sides {
		if side == nil {
			continue
		}
		for _, x := range []*expression{side.limit.expression, side.burst.expression} {
			if x == nil {
				continue
			}
			missing := slices.DeleteFunc(x.inputs.sorted(), func(name string) bool { return key[name] })
			if len(missing) > 0 {
				d.warn(nodes[algorithms.Role(role).String()], "the limit depends on %s, which is not part of the key: requests of one key with different limits share one budget, and either limit may rule; add it to the key", strings.Join(missing, " and "))
				return
			}
		}
	}
}
