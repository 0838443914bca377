package policies

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// linter warns of limits that are valid and probably not meant: those that no client reaches, that a client escapes, or that
// cannot differ. A warning never refuses a file, because a rule cannot know what the author wants.
type linter struct{ *Problems }

// policy looks at one policy. at are the places of its fields.
func (l *linter) policy(p *Policy, at places) {
	l.endlessKey(p, at["key"])
	l.never(p, at["when"])
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

// set looks at the policies of a file together. items are their nodes.
func (l *linter) set(list []*Policy, items []*yaml.Node) {
	// Of two equal policies the second is named.
	for i, p := range list {
		for j, q := range list {
			if i != j && p.shadowedBy(q) && (i > j || !q.shadowedBy(p)) {
				l.warn(items[i], "%s: whatever it denies %s denies, too, by the same key and limits that are no higher: "+
					"leave one of them out", p.Name, q.Name)
				break
			}
		}
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

// never warns of a condition that is never true. It sees contradictions between filters only: CEL offers no proof of others.
func (l *linter) never(p *Policy, at *yaml.Node) {
	if p.when == nil {
		return
	}
	if strings.TrimSpace(p.when.source) == "false" || contradict(p.when.filters) {
		l.warn(at, "when: no request can match: the policy is never charged")
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
		if cause := p.escape(a.x); cause != "" {
			l.warn(at[a.field], "%s: it fails for a request with %s, and that request is not limited at all: "+
				"give it a default, or say what happens then, on_error: deny or on_error: allow", a.field, cause)
			return
		}
	}
}

// escape says with what a request makes an expression of the policy fail, "" if a client has no way.
func (p *Policy) escape(x *expression) string {
	if x == nil {
		return ""
	}
	for _, f := range x.failures {
		if f.table == "" || !p.asksFor(f.table) {
			return f.cause
		}
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

// assumed returns an entry that an expression takes to be there, and that neither it nor the policy's condition asks for. The
// search is in the text: a warning too many is better than a silent one too few.
func (x *expression) assumed(when *expression) string {
	source := strings.ReplaceAll(x.source, "'", `"`)
	for _, name := range x.inputs.sorted() {
		if !x.inputs[required+name] {
			continue
		}

		_, key, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		asked := strings.Contains(source, "[?"+key) || strings.Contains(source, key+" in ") || strings.Contains(source, "has(")
		if when != nil && when != x {
			asked = asked || when.inputs[name] || strings.Contains(strings.ReplaceAll(when.source, "'", `"`), key)
		}
		if !asked {
			return name
		}
	}
	return ""
}

// asksFor reports whether an expression of the policy asks whether a table has a row: request.user in data.plans.
func (p *Policy) asksFor(table string) bool {
	return slices.ContainsFunc(p.expressions(), func(x *expression) bool {
		return strings.Contains(x.source, " in "+table) || strings.Contains(x.source, "has("+table)
	})
}

// failure is a way in which a request makes an expression fail.
type failure struct {
	cause string // such as a text that int rejects
	table string // of the file, where the cause is a row that it has not
}

// clientInputs are what a client can write as it likes. The address, the user, the claims and the route are not among them: the
// service supplies these.
var clientInputs = []string{"request.headers", "request.query", "request.path", "request.host"}

// converting are functions of a text that fail for most texts. Functions of a position, such as charAt, are among them: a client
// can send a shorter text.
var converting = []string{
	"int", "uint", "double", "bool", "timestamp", "duration", "ip", "cidr", "charAt", "substring",
}

// failuresOf returns the ways in which requests make an expression fail: a text that is no number, a part left out, a value that
// has no row in a table of the file. It serves a warning only, so it may miss one: at run time on_error decides for every failure.
func failuresOf(a *cel.Ast, variables []*variable) (list []failure) {
	visit(a, func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if v := variableNamed(e.AsIdent(), variables); v != nil {
				list = append(list, v.failures...)
			}
		case ast.CallKind:
			if f := failureOf(e.AsCall(), a, variables); f.cause != "" {
				list = append(list, f)
			}
		}
	})
	return list
}

// failureOf returns the way in which a call fails, the zero value if there is none.
func failureOf(call ast.CallExpr, a *cel.Ast, variables []*variable) failure {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	if len(args) == 0 {
		return failure{}
	}

	// int(1.5) does not fail, so the type of the argument decides. A claim or a variable of type dyn may be text.
	of := a.NativeRep().GetType(args[0].ID()).Kind()
	switch name := call.FunctionName(); {
	case slices.Contains(converting, name) && (of == types.StringKind || of == types.DynKind):
		if fromClient(args[0], variables) {
			return failure{cause: fmt.Sprintf("a text that %s rejects", name)}
		}
	case name == operators.Index && of == types.ListKind:
		if fromClient(args[0], variables) {
			return failure{cause: "too few parts"}
		}
	case name == operators.Index && of == types.MapKind && args[0].Kind() == ast.IdentKind && args[1].Kind() != ast.LiteralKind:
		if table := args[0].AsIdent(); strings.HasPrefix(table, "data.") {
			return failure{"no row in " + table, table}
		}
	case name == operators.Divide || name == operators.Modulo:
		if fromClient(args[1], variables) {
			return failure{cause: "a divisor of 0"}
		}
	}
	return failure{}
}

// fromClient reports whether an expression is made of what clients write.
func fromClient(e ast.Expr, variables []*variable) (found bool) {
	visitFrom(e, func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}

		// A variable hides the inputs that its own expression reads.
		found = found || slices.Contains(clientInputs, e.AsIdent())
		if v := variableNamed(e.AsIdent(), variables); v != nil {
			for input := range v.inputs {
				base, _, _ := strings.Cut(strings.TrimPrefix(input, required), "[")
				found = found || slices.Contains(clientInputs, base)
			}
		}
	})
	return found
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
	if !side.Custom() || side.window > 0 || at["on_store_failure"] != nil {
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
	if p.Sides[algorithms.Authoritative].decidesLike(candidate) {
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
func (s *Side) decidesLike(other *Side) bool {
	a, b := *s, *other
	a.ID, b.ID = "", ""
	return a.identity() == b.identity()
}

// shadowedBy reports whether q denies whatever p denies. It compares conditions, keys
// and costs as they are written: a miss is no harm, a false report would be.
func (p *Policy) shadowedBy(q *Policy) bool {
	sameRequests := q.when == nil || p.when != nil && p.when.source == q.when.source
	if !sameRequests || p.key.text() != q.key.text() || p.cost.text() != q.cost.text() {
		return false
	}

	// Each side of p must be looser than the same side of q: any stage may enforce either. A policy without a candidate compares the
	// authoritative alone.
	for role, side := range p.Sides {
		if side != nil && (q.Sides[role] == nil || !side.looserThan(q.Sides[role])) {
			return false
		}
	}
	return true
}

// looserThan reports whether two sides differ at most in their limits, and this one
// has the higher.
func (s *Side) looserThan(other *Side) bool {
	if s.None() || other.None() {
		return s.None()
	}

	// While the service suffers, an adaptive limit may be the smaller one.
	if s.adaptive != nil && (other.adaptive == nil || s.adaptive.rule.Key() != other.adaptive.rule.Key()) {
		return false
	}
	if s.Custom() || other.Custom() || s.limit.expression != nil || other.limit.expression != nil {
		return false
	}
	return s.Algorithm.Name() == other.Algorithm.Name() && s.window == other.window &&
		s.burst.text() == other.burst.text() && s.limit.constant >= other.limit.constant
}

// promotion warns of a section by which the gate or the canary decides nothing. at are the places of its own fields.
func (l *linter) promotion(p Promotion, n *yaml.Node, at places) {
	for _, x := range p.expected {
		if x.when != nil && x.direction != "" && strings.TrimSpace(x.when.source) == "true" {
			l.warn(n, "expected: when: true declares every difference in the direction %s, "+
				"so none counts against the candidate: name the requests for which it is wanted, or ask its owner, %s",
				x.direction, x.owner)
		}
	}

	// A constant expression is valid: a file that is made by a program may have one. It is hardly what a person means.
	if at["first"] != nil {
		switch always, constant := p.first.constant(); {
		case constant && always:
			l.warn(at["first"], "first: every key is in the canary from its first step, so its percentages decide nothing: "+
				"name the keys that come first")
		case constant:
			l.warn(at["first"], "first: no key can match, so none is pinned")
		}
	}
}
