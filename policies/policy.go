package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// What decides for a policy whose store fails, and, but for the first, for one
// whose expressions fail.
const (
	FailLocal = "local" // a limiter in this process
	FailAllow = "allow"
	FailDeny  = "deny"
)

// Policy selects the requests to charge, by which key and at what cost, and names
// the two limiters. It is part of a Set: immutable, and safe for concurrent use.
type Policy struct {
	// Name is a ValidName, unique in its file. It names the policy's state in Redis and
	// its series in metrics, so another name is another policy.
	Name string
	// Sides by role. The candidate is nil where a policy is a plain limiter. The authoritative is never nil; see Side.None.
	Sides [2]*Side
	// OnStoreFailure is FailLocal, FailAllow or FailDeny.
	OnStoreFailure string
	// OnError is FailAllow, which charges nothing, or FailDeny. It decides for a
	// request for which the policy's match, key, cost or authoritative limit fails.
	OnError string
	// Labels are texts by name, which stand wherever the policy is shown; nil for none.
	Labels map[string]string
	// Promotion is the policy's section over the file's.
	Promotion Promotion

	when   *expression // nil: always
	key    key
	cost   number
	settle *expression // the final cost, after the answer; nil: the cost is final
	scope  *scope      // of the whole file

	together int // the number of its list, 0 for none
}

// readPolicy reads one policy. Its promotion starts from the file's.
func readPolicy(c *compiler, n *yaml.Node, promotion Promotion) *Policy {
	p := &Policy{
		OnStoreFailure: FailLocal,
		OnError:        FailAllow,
		Promotion:      promotion,
		cost:           number{constant: 1, unsaid: true},
		scope:          c.scope,
	}
	c.mapping(n, "a policy", map[string]field{
		// Which requests it is about, and what each of them costs.
		"name": {read: c.name("name", &p.Name), required: true},
		"when": {read: func(n *yaml.Node) { p.when = c.compile(n, "when", cel.BoolType) }},
		"key":  {read: readKey(c, &p.key), required: true},
		"cost": {read: readCost(c, &p.cost)},
		// What it has cost, once the answer is known.
		"settle": {read: func(n *yaml.Node) { p.settle = readSettle(c, n) }},

		// What is shown beside it.
		"labels": {read: readLabels(c.reader, &p.Labels)},

		// The two limiters.
		"authoritative": {read: readSide(c, "authoritative", &p.Sides[algorithms.Authoritative]), required: true},
		"candidate":     {read: readSide(c, "candidate", &p.Sides[algorithms.Candidate])},

		// What decides where something fails, and how the candidate moves into place.
		"on_store_failure": {read: c.choice("on_store_failure", &p.OnStoreFailure, FailLocal, FailAllow, FailDeny)},
		"on_error":         {read: c.choice("on_error", &p.OnError, FailAllow, FailDeny)},
		"promotion":        {read: readPromotion(c, &p.Promotion)},
	})

	at := placesOf(n)
	if a := p.Sides[algorithms.Authoritative]; a != nil && a.None() && at["candidate"] == nil {
		c.fail(at.orNone("authoritative"), "authoritative: none limits nothing by itself: write the first limit as the candidate, such as %s", sideHint)
	}
	checkIDs(c, at.orNone("candidate"), p)
	checkSettle(c, at["settle"], p)
	return p
}

// checkIDs refuses two sides of one id: they would share one part of a key's record, and
// each would spend what the other has. Custom sides have no part of it.
func checkIDs(c *compiler, n *yaml.Node, p *Policy) {
	authoritative, candidate := p.Sides[algorithms.Authoritative], p.Sides[algorithms.Candidate]
	if authoritative == nil || candidate == nil || authoritative.Custom() || candidate.Custom() {
		return
	}

	check := algorithms.Check{Sides: [2]algorithms.Side{authoritative.Bare(), candidate.Bare()}}
	if err := check.CheckSides(); err != nil {
		c.fail(n, "both sides of %s have the id %q, which names a side's state: write id: next into the candidate",
			p.Name, authoritative.Bare().Name())
	}
}

// readLabels returns a reader of the labels of a policy: texts by name, which stand wherever the policy is shown.
func readLabels(r *reader, into *map[string]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = map[string]string{}
		for name, value := range r.pairs(n, "labels") {
			text := ""
			r.text("labels", &text)(value)
			_, twice := (*into)[name.Value]
			switch {
			case !r.identifier(name, "labels"):
			case twice:
				r.fail(name, "labels: %s is there already", name.Value)
			case len(text) > mostLabelText:
				r.fail(value, "labels: %d bytes: want at most %d", len(text), mostLabelText)
			case len(*into) == mostLabels:
				r.fail(name, "labels: want at most %d", mostLabels)
				return
			default:
				(*into)[name.Value] = text
			}
		}
	}
}

// Bounds of labels: they travel with every announcement, and each is a series.
const (
	mostLabels    = 16
	mostLabelText = 128 // bytes of a value
)

// Check returns what the request is charged under the policy, and reports whether
// the policy matches at all. The context's deadline, if it has one, ends expressions
// that loop over claims. Custom sides have no algorithm. The caller sets the instant and
// the enforced side of the check, which no expression decides.
//
// On an error nothing is charged, and OnError decides. A candidate whose limit cannot
// be computed is no error of the check: it is charged with the zero limit, which
// every algorithm refuses, so that its failure counts against the candidate alone.
func (p *Policy) Check(ctx context.Context, r *Request) (c algorithms.Check, matches bool, err error) {
	matches, err = p.CheckInto(ctx, r, &c)
	return c, matches, err
}

// CheckInto is Check for a check whose memory is used again. The check is overwritten if the policy matches, and stays as it
// was if it does not. On an error its content means nothing.
func (p *Policy) CheckInto(ctx context.Context, r *Request, c *algorithms.Check) (matches bool, err error) {
	w := p.evaluation(ctx, r)
	if matches, err = p.matches(w); err != nil || !matches {
		return false, err
	}

	*c = algorithms.Check{Policy: p.Name}
	if c.Key, err = p.key.value(w); err != nil {
		return false, err
	}
	if c.Cost, err = p.costOf(w); err != nil {
		return false, err
	}
	if err = p.Sides[algorithms.Authoritative].check(w, &c.Sides[algorithms.Authoritative]); err != nil {
		return false, err
	}

	// The error is dropped on purpose: the zero limit makes it the candidate's observation.
	if candidate := p.Sides[algorithms.Candidate]; candidate != nil {
		_ = candidate.check(w, &c.Sides[algorithms.Candidate])
	}
	return true, nil
}

// evaluation returns the working memory of a request, ready for the expressions of the policy.
func (p *Policy) evaluation(ctx context.Context, r *Request) *evaluation {
	w := r.evaluation(ctx, p.scope)

	// Variables that a policy with another on_error has read may be others here.
	strict := p.OnError == FailDeny
	if strict != w.strict && w.query != nil && w.query.unreadable != nil {
		clear(w.values)
	}
	w.strict = strict
	return w
}

// matches reports whether the request is charged. It is the most frequent question of
// all: each policy of a file answers it for each request.
func (p *Policy) matches(w *evaluation) (bool, error) {
	if p.when == nil {
		return true, nil
	}

	// A filter that does not hold saves the evaluation; if there is nothing but
	// filters, none is needed at all.
	for i := range p.when.filters {
		if !p.when.filters[i].holds(w.request) {
			return false, nil
		}
	}
	if p.when.onlyFilters {
		return true, nil
	}

	v, err := p.when.eval(w)
	if err != nil {
		return false, err
	}

	// The checker has seen to the type: another value would be a mistake of CEL.
	matches, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("policies: when %s: got %v: want a bool", p.when.source, v)
	}
	return bool(matches), nil
}

// costOf returns the cost for a request: the policy's, else the caller's. Only an expression and a caller can
// make it negative.
func (p *Policy) costOf(w *evaluation) (int64, error) {
	cost, err := p.cost.value(w)
	if p.cost.unsaid {
		cost = w.request.ownCost()
	}

	if err == nil && cost < 0 {
		err = fmt.Errorf("policies: cost %s: got %d: want at least 0", p.cost.text(), cost)
	}
	return cost, err
}

// Expected returns the differences that are declared for a request at its time. It must
// be asked when the request is charged, because the outcome may be known only when the
// request is gone. A condition that fails declares nothing: the difference
// then counts against the candidate, which is the safe side.
func (p *Policy) Expected(ctx context.Context, r *Request) (e algorithms.Expected) {
	for _, x := range p.Promotion.expected {
		if !r.Time.Before(x.until) {
			continue
		}

		// One condition that fails does not take the others away.
		v, err := x.when.eval(p.evaluation(ctx, r))
		if err != nil || v != types.True {
			continue
		}
		e.NewlyDenied = e.NewlyDenied || x.direction == newlyDenied
		e.NewlyAllowed = e.NewlyAllowed || x.direction == newlyAllowed
	}
	return e
}

// DeclaresFirst reports whether the policy may pin keys. If not, its keys need not be asked.
func (p *Policy) DeclaresFirst() bool { return p.Promotion.first != nil }

// First reports whether a request's key, which must be one that the policy charges, is pinned: in a canary from its first step.
// The key alone decides: no other request of the key, and no other instance with this file, finds another answer. With an
// error it is not.
func (p *Policy) First(ctx context.Context, r *Request) (bool, error) {
	if !p.DeclaresFirst() {
		return false, nil
	}

	// A key of more than 256 bytes is charged under its hash, and asked for by what it was.
	parts, err := p.key.parts(p.evaluation(ctx, r))
	if err != nil {
		return false, err
	}
	return p.Promotion.isFirst(parts)
}

// FirstKey is First of a key as commands show it. The error may also say that the key is none
// of this policy, or that nothing but its hash is known.
func (p *Policy) FirstKey(key string) (bool, error) {
	if !p.DeclaresFirst() {
		return false, nil
	}

	parts, err := p.key.partsOf(key)
	if err != nil {
		return false, err
	}
	return p.Promotion.isFirst(parts)
}

// Settles reports whether the policy has a cost that is known after the answer only.
func (p *Policy) Settles() bool { return p.settle != nil }

// FinalCost returns what a request that was charged has cost, by the answer to it. The request is the one that was checked, not Reset
// since. On an error the cost stays as it was charged.
func (p *Policy) FinalCost(ctx context.Context, r *Request, a *Response) (int64, error) {
	w := p.evaluation(ctx, r)
	w.response = a
	defer func() { w.response = nil }()

	cost, err := number{expression: p.settle}.value(w)
	if err == nil && cost < 0 {
		err = fmt.Errorf("policies: settle %s: got %d: want at least 0", strings.TrimSpace(p.settle.source), cost)
	}
	return cost, err
}

// LimitOf returns the limit that a side has for a key, false where the key does not tell it: an element of the key is not just a field
// of a request, or a header, or a variable that is one, or the limit reads something else.
func (p *Policy) LimitOf(side *Side, key string) (algorithms.Limit, bool) {
	if limit, constant := side.Constant(); constant {
		return limit, true
	}
	parts, err := p.key.partsOf(key)
	if err != nil {
		return algorithms.Limit{}, false
	}

	// A request that has the key.
	r, told := &Request{Headers: http.Header{}}, map[string]bool{}
	for i, x := range p.key {
		field := plainElement(p, x)
		if field == nil {
			continue
		}
		field.set(r, parts[i])
		for name := range x.inputs {
			told[strings.TrimPrefix(name, required)] = true
		}
	}
	for name := range side.limitInputs() {
		if !told[strings.TrimPrefix(name, required)] {
			return algorithms.Limit{}, false
		}
	}

	// The elements that are no fields have to come out alike, such as constants.
	w := p.evaluation(context.Background(), r)
	if made, err := p.key.value(w); err != nil || made != key {
		return algorithms.Limit{}, false
	}
	limit, err := side.limitOf(w)
	return limit, err == nil
}

// plainElement returns an element of the key that is a field or a header, by itself or as a variable, nil for all others.
func plainElement(p *Policy, x *expression) *plain {
	if v := variableNamed(strings.TrimSpace(x.source), p.scope.variables); v != nil {
		return v.plain
	}
	return x.plain
}

// Together is the number of the list of policies that are charged together with this one, 0 if it is charged by itself.
func (p *Policy) Together() int { return p.together }

// Declarations describes the declared differences, one a line: "newly_denied until
// 2027-03-31, owner team-batch, when variables.tenant == ...".
func (p *Policy) Declarations() []string {
	list := make([]string, len(p.Promotion.expected))
	for i, x := range p.Promotion.expected {
		condition := strings.TrimSpace(x.when.source)
		list[i] = fmt.Sprintf("%s until %s, owner %s, when %s", x.direction, day(x.until), humanize.Printable(x.owner), condition)
	}
	return list
}

// day writes the end of a declaration as briefly as the file can have it.
func day(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.UTC().Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// expressions returns all that a check evaluates, and its settlement.
func (p *Policy) expressions() []*expression {
	var list []*expression
	add := func(x *expression) {
		if x != nil {
			list = append(list, x)
		}
	}

	for _, x := range p.key {
		add(x)
	}
	add(p.cost.expression)
	add(p.settle)

	add(p.when)
	for _, side := range p.Sides {
		if side != nil {
			add(side.limit.expression)
			add(side.burst.expression)
		}
	}
	return list
}

// Parts takes the policy's condition apart. It has none without a condition. It compiles them, so it is for tools and not for
// requests.
func (p *Policy) Parts() []Part {
	if p.when == nil {
		return nil
	}

	// CEL cannot write every expression down again: a macro has become a loop. Then the condition is one part.
	var list []Part
	info := p.when.checked.NativeRep().SourceInfo()
	for _, e := range conjuncts(p.when.checked.NativeRep().Expr()) {
		text, program, ok := p.when.alone(e, info)
		if !ok {
			return []Part{{strings.TrimSpace(p.when.source), p.when.program, p.scope}}
		}
		list = append(list, Part{text, program, p.scope})
	}
	return list
}

// Inputs returns the fields of a request that a check of the policy reads, such as request.path or
// request.headers["x-tenant"], in order.
func (p *Policy) Inputs() []string { return inputsIn(p.expressions()) }

// KeyInputs returns the inputs that the key reads. A key that reads none is the same for every request.
func (p *Policy) KeyInputs() []string { return inputsIn(p.key) }

// Fingerprint is a hash of what the policy compares: both sides and the key,
// as configured, with the variables if they use any. Evidence of another fingerprint says
// nothing about this one. Expressions of limits are part of it; the limits that they
// yield are not, nor the data that they read, so that an override for one customer
// does not start the migration over.
//
// It has 12 hexadecimal digits. 48 bits are enough to distinguish the versions of one
// policy: fingerprints of different policies are never compared.
func (p *Policy) Fingerprint() string {
	identities := []string{p.key.text()}
	for _, side := range p.Sides {
		if side != nil {
			identities = append(identities, side.identity())
		}
	}

	// All variables, not only those in use: one may use another. The search is in the text:
	// a remark that names a variable starts the evidence over too often, which is the safe error.
	if strings.Contains(strings.Join(identities, ""), "variables.") {
		for _, v := range p.scope.variables {
			identities = append(identities, v.name+"\x00"+v.source)
		}
	}

	sum := sha256.Sum256([]byte(strings.Join(identities, "\x01")))
	return hex.EncodeToString(sum[:6])
}
