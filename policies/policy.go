package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
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

// policy reads one policy. Its promotion starts from the file's.
func (c *compiler) policy(n *yaml.Node, promotion Promotion) *Policy {
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
		"key":  {read: c.key(&p.key), required: true},
		"cost": {read: c.cost(&p.cost)},
		// What it has cost, once the answer is known.
		"settle": {read: func(n *yaml.Node) { p.settle = c.settle(n) }},

		// What is shown beside it.
		"labels": {read: c.labels(&p.Labels)},

		// The two limiters.
		"authoritative": {read: c.side("authoritative", &p.Sides[algorithms.Authoritative]), required: true},
		"candidate":     {read: c.side("candidate", &p.Sides[algorithms.Candidate])},

		// What decides where something fails, and how the candidate moves into place.
		"on_store_failure": {read: c.choice("on_store_failure", &p.OnStoreFailure, FailLocal, FailAllow, FailDeny)},
		"on_error":         {read: c.choice("on_error", &p.OnError, FailAllow, FailDeny)},
		"promotion":        {read: c.promotion(&p.Promotion)},
	})

	at := placesOf(n)
	if a := p.Sides[algorithms.Authoritative]; a != nil && a.None() && at["candidate"] == nil {
		c.fail(at.orNone("authoritative"), "authoritative: none limits nothing by itself: write the first limit as the candidate, such as %s", sideHint)
	}
	c.checkIDs(at.orNone("candidate"), p)
	c.checkSettle(at["settle"], p)
	return p
}

// checkIDs refuses two sides of one id: they would share one part of a key's record, and
// each would spend what the other has. Custom sides have no part of it.
func (c *compiler) checkIDs(n *yaml.Node, p *Policy) {
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
