package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

// upperCase refuses a header that is named as it is often written: names are in
// lower case here, so it would never be there.
func (d *document) upperCase(n *yaml.Node, what string, a *cel.Ast) (found bool) {
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		var of, name ast.Expr
		switch args := call.Args(); call.FunctionName() {
		case operators.Index, operators.OptIndex:
			of, name = args[0], args[1]
		case operators.In:
			of, name = args[1], args[0]
		default:
			return
		}
		text := texts(name)
		if of.Kind() != ast.IdentKind || of.AsIdent() != "request.headers" || len(text) != 1 || text[0] == strings.ToLower(text[0]) {
			return
		}
		at := a.NativeRep().SourceInfo().GetStartLocation(name.ID())
		line, column := d.place(n, at.Line(), at.Column())
		d.failAt(line, column, "%s: header names are in lower case here: write %q, for there is never a %q", what, strings.ToLower(text[0]), text[0])
		found = true
	}))
	return found
}

// byClients are what a client can write as it likes.
var byClients = []string{"request.headers", "request.query", "request.path", "request.host"}

// converting are functions of a text that fail for most texts.
var converting = []string{"int", "uint", "double", "bool", "timestamp", "duration", "ip", "cidr", "charAt", "substring"}

// failsOf returns what a client can make an expression fail by, apart from what
// lintAbsent finds: by a text that is no number, or by leaving a part out.
func failsOf(a *cel.Ast, variables []*variable) (list []string) {
	rep := a.NativeRep()
	ast.PostOrderVisit(rep.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			for _, v := range variables {
				if v.name == e.AsIdent() {
					list = append(list, v.fails...)
				}
			}
		case ast.CallKind:
			call := e.AsCall()
			args := call.Args()
			if call.IsMemberFunction() {
				args = append([]ast.Expr{call.Target()}, args...)
			}
			switch name := call.FunctionName(); {
			case len(args) > 0 && slices.Contains(converting, name) && isText(rep.GetType(args[0].ID())) && fromClient(args[0], variables):
				list = append(list, fmt.Sprintf("a text that %s does not take", name))
			case name == operators.Index && rep.GetType(args[0].ID()).Kind() == types.ListKind && fromClient(args[0], variables):
				list = append(list, "too few parts")
			case (name == operators.Divide || name == operators.Modulo) && fromClient(args[1], variables):
				list = append(list, "a divisor of 0")
			}
		}
	}))
	slices.Sort(list)
	return slices.Compact(list)
}

func isText(t *types.Type) bool { return t.Kind() == types.StringKind || t.Kind() == types.DynKind }

// fromClient reports whether an expression is made of what clients write.
func fromClient(e ast.Expr, variables []*variable) (found bool) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		found = found || slices.Contains(byClients, e.AsIdent())
		for _, v := range variables {
			if v.name == e.AsIdent() {
				for input := range v.inputs {
					base, _, _ := strings.Cut(strings.TrimPrefix(input, must), "[")
					found = found || slices.Contains(byClients, base)
				}
			}
		}
	}))
	return found
}

// lintHostile warns of expressions that a client can make fail at will where
// nobody has said what shall rule then: by default it is not limited.
func (d *document) lintHostile(p *Policy, nodes map[string]*yaml.Node) {
	if nodes["on_error"] != nil {
		return
	}
	warn := func(field string, x *expression) bool {
		if x == nil || len(x.fails) == 0 {
			return false
		}
		d.warn(nodes[field], "%s: a client that sends %s makes this fail, and is then not limited at all: say what rules then, on_error: deny or on_error: allow", field, strings.Join(x.fails, " or "))
		return true
	}
	if warn("when", p.when) || warn("cost", p.cost.expression) {
		return
	}
	for _, x := range p.key {
		if warn("key", x) {
			return
		}
	}
	if x := p.when; x != nil && strings.Contains(x.source, "!") {
		for _, name := range x.unguarded() {
			d.warn(nodes["when"], "when: a request without %s does not match whatever is negated here, for the whole fails, and is not limited at all: say what it counts as, with [?...].orValue(...), or on_error: deny", name)
			return
		}
	}
	side := p.Sides[0]
	if side != nil && !warn("authoritative", side.limit.expression) {
		warn("authoritative", side.burst.expression)
	}
}

// unguarded returns the entries that an expression takes to be there and does not
// ask for.
func (x *expression) unguarded() (list []string) {
	for _, name := range x.inputs.sorted() {
		_, key, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		if x.inputs[must+name] && !strings.Contains(x.source, "[?"+key) && !strings.Contains(x.source, key+" in ") && !strings.Contains(x.source, "has(") {
			list = append(list, name)
		}
	}
	return list
}

// lintHost warns of the one header that is never among the headers.
func (d *document) lintHost(p *Policy, nodes map[string]*yaml.Node) {
	for _, x := range append(slices.Clone(p.key), p.when) {
		if x != nil && x.inputs[`request.headers["host"]`] {
			d.warn(nodes["name"], "request.headers[\"host\"] is never there, for servers take it out: take request.host")
			return
		}
	}
}

// lintSize warns of a cost that is the size of a body as such.
func (d *document) lintSize(p *Policy, nodes map[string]*yaml.Node) {
	x := p.cost.expression
	if x == nil || !x.inputs["request.size"] || nodes["on_error"] != nil || strings.Contains(x.source, "?") || strings.Contains(x.source, "math.greatest") {
		return
	}
	d.warn(nodes["cost"], "cost: request.size is -1 where the client does not say, as with Transfer-Encoding: chunked; a cost below 0 fails, and the client is not limited at all: take math.greatest(request.size, 1), and bound the body")
}
