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

// Policy is who is charged, by what key, how much, and the two limiters.
type Policy struct {
	Name string
	// Sides by role. The candidate is nil where a policy is a plain limiter.
	Sides [2]*Side
	// OnStoreFailure is FailLocal, FailAllow or FailDeny.
	OnStoreFailure string
	// OnError is FailAllow, which charges nothing, or FailDeny. It rules where the
	// policy's match, key, cost or authoritative limit cannot be had for a request.
	OnError   string
	Promotion Promotion

	when  *expression // nil: always
	key   key
	cost  number
	scope *scope
}

// policy reads one policy. Its promotion starts from the file's.
func (d *document) policy(env *cel.Env, n *yaml.Node, promotion Promotion) *Policy {
	p := &Policy{OnStoreFailure: FailLocal, OnError: FailAllow, cost: number{constant: 1}, Promotion: promotion, scope: d.scope}
	nodes := map[string]*yaml.Node{}
	d.note(n, nodes)
	d.mapping(n, "a policy", map[string]field{
		"name":             {read: d.name("name", &p.Name), required: true},
		"when":             {read: func(n *yaml.Node) { p.when = d.compile(env, n, "when", cel.BoolType) }},
		"key":              {read: d.key(env, &p.key), required: true},
		"cost":             {read: d.number(env, "cost", &p.cost, 0)},
		"authoritative":    {read: d.sideOf(env, "authoritative", &p.Sides[algorithms.Authoritative]), required: true},
		"candidate":        {read: d.sideOf(env, "candidate", &p.Sides[algorithms.Candidate])},
		"on_store_failure": {read: d.choice("on_store_failure", &p.OnStoreFailure, FailLocal, FailAllow, FailDeny)},
		"on_error":         {read: d.choice("on_error", &p.OnError, FailAllow, FailDeny)},
		"promotion":        {read: d.promotion(env, &p.Promotion)},
	})
	a, c := p.Sides[0], p.Sides[1]
	if a != nil && c != nil && !a.Foreign() && !c.Foreign() {
		if err := (&algorithms.Charge{Sides: [2]algorithms.Side{a.Bare(), c.Bare()}}).CheckSides(); err != nil {
			d.fail(n, "both sides of %s have the id %q: give one of them another \"id\", for it names their state", p.Name, a.Bare().Name())
		}
	}
	d.lint(p, nodes)
	if own := nodes["promotion"]; own != nil {
		d.lintPromotion(p.Promotion, own)
	}
	return p
}

// note keeps where a policy's fields stand.
func (d *document) note(n *yaml.Node, into map[string]*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		into[n.Content[i].Value] = n.Content[i+1]
	}
}

// Bare is the side without its limit.
func (s *Side) Bare() algorithms.Side {
	id := s.ID
	if id == "" && s.Store != "" {
		id = s.Algorithm.Name() + "@" + s.Store
	}
	return algorithms.Side{ID: id, Algorithm: s.Algorithm}
}

// Charge returns what the request is charged under the policy, foreign sides
// without an algorithm, and reports whether the policy matches at all. On an error
// nothing is to be charged, and OnError rules. A candidate whose limit cannot be had is charged with
// the zero limit, which every algorithm refuses: its error is its own.
func (p *Policy) Charge(ctx context.Context, r *Request) (c algorithms.Charge, matches bool, err error) {
	w := r.evaluation(ctx, p.scope)
	if matches, err = p.matches(w); err != nil || !matches {
		return c, false, err
	}
	c.Policy = p.Name
	if c.Key, err = p.key.value(w); err != nil {
		return c, false, err
	}
	if c.Cost, err = p.cost.value(w); err == nil && c.Cost < 0 {
		err = fmt.Errorf("policies: cost %s: got %d: want at least 0", p.cost.text(), c.Cost)
	}
	if err != nil {
		return c, false, err
	}
	authoritative, candidate := p.Sides[algorithms.Authoritative], p.Sides[algorithms.Candidate]
	c.Sides[algorithms.Authoritative] = authoritative.Bare()
	if c.Sides[algorithms.Authoritative].Limit, err = authoritative.limitOf(w); err != nil {
		return c, false, err
	}
	if candidate != nil {
		c.Sides[algorithms.Candidate] = candidate.Bare()
		c.Sides[algorithms.Candidate].Limit, _ = candidate.limitOf(w)
	}
	return c, true, nil
}

func (p *Policy) matches(w *evaluation) (bool, error) {
	if p.when == nil {
		return true, nil
	}
	for i := range p.when.filters {
		if !p.when.filters[i].holds(w.request) {
			return false, nil
		}
	}
	if p.when.whole {
		return true, nil
	}
	v, err := p.when.eval(w)
	if err != nil {
		return false, err
	}
	matches, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("policies: when %s: got %v: want a bool", p.when.source, v)
	}
	return bool(matches), nil
}

// Epoch is the fingerprint of what the policy compares: both sides and the key,
// as configured, with the variables if they use any. Another epoch makes evidence
// of before worthless. Limits that expressions yield are not part of it, nor the
// data that they are made of; the expressions are.
func (p *Policy) Epoch() string {
	parts := []string{p.key.text()}
	for _, side := range p.Sides {
		if side != nil {
			parts = append(parts, side.identity())
		}
	}
	if strings.Contains(strings.Join(parts, ""), "variables.") {
		for _, v := range p.scope.variables {
			parts = append(parts, v.name+"\x00"+v.source)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x01")))
	return hex.EncodeToString(sum[:6])
}
