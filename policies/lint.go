package policies

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// linter warns of limits that are valid and probably not meant: those that no client reaches, that a client escapes, or that
// cannot differ. A warning never refuses a file, because a rule cannot know what the author wants.
type linter struct{ *Problems }

// policy looks at one policy. at are the places of its fields.
func (l *linter) policy(p *Policy, at places) {
	l.endlessKey(p, at["key"])
	l.escapes(p, at)
	l.limitBesideKey(p, at)
	l.cost(p, at["cost"])
	l.withoutShare(p, at)
	l.largeLogs(p, at)
	l.candidate(p, at["candidate"])
	l.strictness(p, at["candidate"])
	l.oneForAll(p, at["candidate"])
}

// file looks at the file as a whole. at is its name. A plain limiter has no stage that a deployment could change.
func (l *linter) file(s *Set, at *yaml.Node) {
	migrates := slices.ContainsFunc(s.Policies, func(p *Policy) bool { return p.Sides[algorithms.Candidate] != nil })
	if migrates && s.Generation == 0 {
		l.warn(at, "generation is missing: while old instances run, a new release of this file waits on its authoritative: "+
			"add generation, and have CI write its build number or the commit's time there")
	}
}

// endless are inputs that hardly repeat, or that clients vary at will: a key of one of these gives a client a fresh budget for each
// value.
var endless = []string{
	"request.path", "request.query", "request.time", "request.size",
	`request.headers["x-request-id"]`, `request.headers["x-correlation-id"]`, `request.headers["x-trace-id"]`,
	`request.headers["traceparent"]`, `request.headers["x-amzn-trace-id"]`, `request.headers["user-agent"]`,
	`request.headers["date"]`, `request.headers["referer"]`, `request.headers["cookie"]`,
}

// endlessKey warns of a key that hardly repeats.
func (l *linter) endlessKey(p *Policy, at *yaml.Node) {
	for _, name := range p.key.inputs().sorted() {
		if slices.Contains(endless, name) {
			l.warn(at, "key: %s has a new value in nearly every request, and each value has its own budget: "+
				"no client is limited, and memory fills up", name)
		}
	}
}

// escapes warns of an expression that a client can make fail, where the file does not say what happens then: by default the client
// is not limited.
func (l *linter) escapes(p *Policy, at places) {
	if at["on_error"] != nil {
		return
	}

	// In the order of the evaluation. A candidate whose limit fails harms itself alone.
	side := p.Sides[algorithms.Authoritative]
	type asked struct {
		field string
		x     *expression
	}
	list := []asked{{"when", p.when}}
	for _, x := range p.key {
		list = append(list, asked{"key", x})
	}
	list = append(list, asked{"cost", p.cost.expression},
		asked{"authoritative", side.limit.expression}, asked{"authoritative", side.burst.expression})

	// One warning a policy is enough, for one on_error answers them all.
	for _, a := range list {
		if cause := escapeOf(p, a.x); cause != "" {
			l.warn(at[a.field], "%s: it fails for a request with %s, and that request is not limited at all: "+
				"give it a default, or say what happens then, on_error: deny or on_error: allow", a.field, cause)
			return
		}
	}
}

// escapeOf says with what a request makes an expression of the policy fail, "" if a client has no way.
func escapeOf(p *Policy, x *expression) string {
	if x == nil {
		return ""
	}
	// A condition that fails is as good as one that is false, unless its author means the requests without the entry.
	if x != p.when || strings.Contains(x.source, "!") {
		if absent := x.assumed(p.when); absent != "" {
			return "no " + absent
		}
	}
	if x == p.cost.expression && x.inputs["request.size"] && !strings.ContainsAny(x.source, "?>") && !strings.Contains(x.source, "math.") {
		return "a body of unknown size, which is request.size -1"
	}
	return ""
}

// limitBesideKey warns where one key can have two limits: each request brings its own, and the state of the key is the same.
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

// cost warns of a cost that no limit counts, or that no bucket holds, also at the least level of an adaptive limit.
func (l *linter) cost(p *Policy, at *yaml.Node) {
	if p.cost.expression != nil || p.cost.unsaid {
		return
	}
	if p.cost.constant == 0 {
		l.warn(at, "cost: every request is a peek, so the policy limits nothing: leave cost out, or write 1")
		return
	}

	for role, side := range p.Sides {
		// A limit of 0 is meant to deny every request.
		if side == nil || side.Custom() || !side.constant() || side.limit.constant == 0 {
			continue
		}
		limit := algorithms.Limit{Requests: side.limit.constant, Burst: side.burst.constant}
		most, while := limit.Capacity(), ""
		if side.adaptive != nil {
			least := side.AtLevel(side.adaptive.rule.Least())
			most, while = least.Capacity(), " at its least level"
		}
		if p.cost.constant > most {
			l.warn(at, "cost: %d is more than the %s allows at once%s, %d: every request is denied then",
				p.cost.constant, algorithms.Role(role), while, most)
			return
		}
	}
}

// withoutShare warns of today's limiter where it is custom and has no limit in the file: local then has no share of a limit to
// apply. Where the file says what happens, its author has decided.
func (l *linter) withoutShare(p *Policy, at places) {
	side := p.Sides[algorithms.Authoritative]
	if !side.Custom() || side.Logged() || side.window > 0 || at["on_store_failure"] != nil {
		return
	}

	l.warn(at["authoritative"], "%s: while this limiter fails, every request is allowed, because on_store_failure: local has no limit "+
		"of it to go by: write limit and window beside its name, or say on_store_failure: allow or deny", side.Limiter)
}

// Keys that are busy within one window, for a warning of logs that take too much of a Redis.
const (
	busyKeys     = 10_000
	mostLogBytes = 1 << 30 // bytes of that many full logs, beyond which a log is rarely meant
)

// largeLogs warns of logs that fill a Redis before an operator expects it: a log grows with the limit, and all other
// algorithms store a few numbers a key.
func (l *linter) largeLogs(p *Policy, at places) {
	for role, side := range p.Sides {
		if side == nil || side.LargestLog()*busyKeys <= mostLogBytes {
			continue
		}
		l.warn(at[algorithms.Role(role).String()], "a log of this limit may take %d KiB a key in Redis, %.1f GiB for %d busy keys; "+
			"use sliding_window_counter or gcra, which store a few numbers a key, unless there are few keys",
			side.LargestLog()>>10, float64(side.LargestLog()*busyKeys)/(1<<30), busyKeys)
	}
}

// candidate warns of a candidate that brings nothing, or a stampede.
func (l *linter) candidate(p *Policy, at *yaml.Node) {
	candidate := p.Sides[algorithms.Candidate]
	if candidate == nil {
		return
	}

	// Windows up to a minute are the usual ones, and their stampede is as short.
	aligned := algorithms.TraitsOf(candidate.Algorithm).Shape == algorithms.AlignedWindow
	if aligned && candidate.window > time.Minute {
		l.warn(at, "windows of %s are aligned: all keys reset at the same instant, and clients return at once; "+
			"use sliding_window_counter or fixed_window_anchored", algorithms.FormatWindow(candidate.window))
	}
	if decidesLike(p.Sides[algorithms.Authoritative], candidate) {
		l.warn(at, "the candidate is the same limiter as the authoritative: they can never differ; "+
			"change one, or leave the candidate out")
	}
}

// leastApart is the least threshold that disturbed time cannot reach by itself, where the sides share no record.
const leastApart = 0.02

// strictness warns of thresholds that two limiters which are the same can exceed, because a check can reach one side only.
func (l *linter) strictness(p *Policy, at *yaml.Node) {
	a, c := p.Sides[algorithms.Authoritative], p.Sides[algorithms.Candidate]
	if c == nil || a.None() || !a.Custom() && !c.Custom() && a.Residence == c.Residence {
		return
	}
	for _, threshold := range []struct {
		name  string
		value float64
	}{
		{"divergence", p.Promotion.Divergence}, {"newly_denied", p.Promotion.NewlyDenied},
		{"newly_allowed", p.Promotion.NewlyAllowed}, {"extra_load", p.Promotion.ExtraLoad},
	} {
		if threshold.value > 0 && threshold.value < leastApart {
			l.warn(at, "the candidate shares no record with the authoritative, so a check can reach one of them only, and two limiters that are "+
				"the same may then differ by more than %s: %g%% allows: put both sides into one store, or write a threshold of %g%% or more",
				threshold.name, math.Round(threshold.value*1e6)/1e4, 100*leastApart)
			return
		}
	}
}

// oneForAll warns of a candidate whose one budget for all instances is not larger than what each instance has today: with a second
// instance there is less than before, although the numbers say that nothing changes.
func (l *linter) oneForAll(p *Policy, at *yaml.Node) {
	a, c := p.Sides[algorithms.Authoritative], p.Sides[algorithms.Candidate]
	if c == nil || !a.PerProcess || c.PerProcess || c.window == 0 || !a.constant() || !c.constant() {
		return
	}
	today, tomorrow := float64(a.limit.constant)/a.window.Seconds(), float64(c.limit.constant)/c.window.Seconds()
	if tomorrow > today {
		return
	}
	l.warn(at, "the candidate has %s for all instances together, and %s has %s in each: clients whose requests are spread over "+
		"several instances get less than today: write the sum, which status shows for the live instances, unless less is what you want",
		c.limitText(), a.Limiter, a.limitText())
}

// decidesLike reports whether two sides decide alike whatever their ids, which name
// state and are no part of a decision.
func decidesLike(s *Side, other *Side) bool {
	a, b := *s, *other
	a.ID, b.ID = "", ""
	return a.identity() == b.identity()
}
