package policies

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// inputs are what an expression reads of a request: request.path, or
// request.headers["x-tenant"]. Variables are resolved into what they read.
type inputs map[string]bool

// must marks an entry of a map that is read as if it were always there.
const must = "must "

// inputsOf returns what an expression reads.
func inputsOf(expression *cel.Ast, variables []*variable) inputs {
	in := inputs{}
	ast.PostOrderVisit(expression.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			in.read(e.AsIdent(), variables)
		case ast.CallKind:
			in.index(e.AsCall())
		case ast.SelectKind:
			if s := e.AsSelect(); s.Operand().Kind() == ast.IdentKind && strings.HasPrefix(s.Operand().AsIdent(), "request.") {
				in.entry(s.Operand().AsIdent(), s.FieldName(), !s.IsTestOnly())
			}
		}
	}))
	in.narrow()
	return in
}

func (in inputs) read(name string, variables []*variable) {
	if strings.HasPrefix(name, "request.") {
		in[name] = true
		return
	}
	for _, v := range variables {
		if v.name == name {
			maps.Copy(in, v.inputs)
		}
	}
}

// index notes which entry of a map is read, if that is written there.
func (in inputs) index(call ast.CallExpr) {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex:
	default:
		return
	}
	args := call.Args()
	if key := texts(args[1]); len(key) == 1 && args[0].Kind() == ast.IdentKind && strings.HasPrefix(args[0].AsIdent(), "request.") {
		in.entry(args[0].AsIdent(), key[0], call.FunctionName() == operators.Index)
	}
}

// entry notes an entry of a map, and whether it must be there.
func (in inputs) entry(of, key string, required bool) {
	entry := of + `["` + key + `"]`
	in[entry] = true
	if required {
		in[must+entry] = true
	}
}

// headers yields the names of the headers that are written out.
func (in inputs) headers() iter.Seq[string] {
	return func(yield func(string) bool) {
		for input := range in {
			name, found := strings.CutPrefix(input, `request.headers["`)
			if found && !yield(strings.TrimSuffix(name, `"]`)) {
				return
			}
		}
	}
}

// narrow drops a map as a whole where it is its entries that are read.
func (in inputs) narrow() {
	for name := range in {
		if base, _, entry := strings.Cut(name, "["); entry {
			delete(in, base)
		}
	}
}

// sorted returns the inputs in order.
func (in inputs) sorted() []string {
	names := slices.Sorted(maps.Keys(in))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, must) })
}

// reads reports whether any expression of the set reads an input.
func (s *Set) reads(input string) bool {
	for _, p := range s.Policies {
		all := slices.Clone(p.key)
		all = append(all, p.when, p.cost.expression)
		for _, side := range p.Sides {
			if side != nil {
				all = append(all, side.limit.expression, side.burst.expression)
			}
		}
		if slices.ContainsFunc(all, func(x *expression) bool { return x != nil && x.inputs[input] }) {
			return true
		}
	}
	return false
}
