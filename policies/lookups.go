package policies

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// lookup is a row of a table of the file that an expression asks for by a value of the request, as in data.plans[request.user].
type lookup struct {
	table string // such as data.plans
	key   string // such as request.user; "" if it is no field of the request
}

// lookupsOf returns the lookups that fail for a row that the table does not have: [?...] does not.
func lookupsOf(a *cel.Ast) (list []lookup) {
	visit(a, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
			return
		}

		// Only a table of the file has rows that an author can add. A key that is written out is asked for by every request, so the first
		// one shows that its row is missing.
		table, key := e.AsCall().Args()[0], e.AsCall().Args()[1]
		if table.Kind() != ast.IdentKind || !strings.HasPrefix(table.AsIdent(), "data.") || key.Kind() == ast.LiteralKind ||
			a.NativeRep().GetType(table.ID()).Kind() != types.MapKind {
			return
		}

		// The remedy can name the field. A key that is made of several fields has no short name.
		one := lookup{table: table.AsIdent()}
		if key.Kind() == ast.IdentKind {
			one.key = key.AsIdent()
		}
		list = append(list, one)
	})
	return list
}

// missingRow warns of a policy that does not charge the requests whose row a table lacks, where the file does not say what happens
// then. An author who asks for the row anywhere has thought of it.
func (l *linter) missingRow(p *Policy, at places) {
	if at["on_error"] != nil {
		return
	}

	// One warning is enough, as of hostile requests. A candidate whose limit fails harms itself alone.
	authoritative := p.Sides[algorithms.Authoritative]
	asked := []*expression{p.when, p.cost.expression, authoritative.limit.expression, authoritative.burst.expression}
	for _, x := range append(asked, p.key...) {
		if x == nil {
			continue
		}
		for _, one := range x.lookups {
			if !p.asksFor(one.table) {
				l.warn(placeOf(p, x, at), "a request is not charged if %s has no row for it, because this fails: write %s, "+
					"or say what happens then, on_error: deny or on_error: allow", one.table, one.optional())
				return
			}
		}
	}
}

// asksFor reports whether an expression of the policy asks whether a table has a row: request.user in data.plans, or has(data.plans.gold).
func (p *Policy) asksFor(table string) bool {
	for _, x := range p.expressions() {
		if strings.Contains(x.source, " in "+table) || strings.Contains(x.source, "has("+table) {
			return true
		}
	}
	return false
}

// optional is the lookup with a default, as an author writes it: data.plans[?request.user].orValue(...).
func (one lookup) optional() string {
	key := one.key
	if key == "" {
		key = "..."
	}
	return one.table + "[?" + key + "].orValue(...)"
}

// placeOf returns the place of a policy's expression: the field that has it, or the side for its limit and its burst. A key of several
// expressions has one place.
func placeOf(p *Policy, x *expression, at places) *yaml.Node {
	switch {
	case x == p.when:
		return at["when"]
	case x == p.cost.expression:
		return at["cost"]
	case x == p.Sides[algorithms.Authoritative].limit.expression, x == p.Sides[algorithms.Authoritative].burst.expression:
		return at["authoritative"]
	}
	return at["key"]
}
