package policies

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// filter is a part of a condition that needs no CEL: one field of a request is one
// of a few texts, or begins with one of them. Where it does not hold the whole
// condition is false, for "&&" is false if either side is, even if the other fails.
// Among many policies for different routes it saves nearly all evaluations.
type filter struct {
	field  string
	texts  []string
	prefix bool
}

// fieldOf returns the fields that filters know.
func fieldOf(name string, r *Request) string {
	switch name {
	case "request.method":
		return r.Method
	case "request.route":
		return r.Route
	case "request.path":
		return r.Path
	}
	return r.Host // the only other one that filterOf makes
}

var filterable = []string{"request.method", "request.route", "request.path", "request.host"}

func (f *filter) holds(r *Request) bool {
	value := fieldOf(f.field, r)
	if !f.prefix {
		return slices.Contains(f.texts, value)
	}
	return strings.HasPrefix(value, f.texts[0])
}

// filtersOf returns the filters that a condition implies, and whether they are all
// there is to it.
func filtersOf(condition *cel.Ast) (list []filter, whole bool) {
	whole = true
	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			whole = false
			return
		}
		call := e.AsCall()
		if call.FunctionName() == operators.LogicalAnd {
			for _, arg := range call.Args() {
				walk(arg)
			}
			return
		}
		f, ok := filterOf(call)
		if !ok {
			whole = false
			return
		}
		list = append(list, f)
	}
	walk(condition.NativeRep().Expr())
	return list, whole
}

// filterOf reads field == text, text == field, field in [texts] and
// field.startsWith(text).
func filterOf(call ast.CallExpr) (filter, bool) {
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals:
		for i, j := range []int{1, 0} {
			if field, text := fieldName(args[i]), texts(args[j]); field != "" && len(text) == 1 {
				return filter{field: field, texts: text}, true
			}
		}
	case operators.In:
		if field := fieldName(args[0]); field != "" && args[1].Kind() == ast.ListKind {
			var all []string
			for _, e := range args[1].AsList().Elements() {
				text := texts(e)
				if text == nil {
					return filter{}, false
				}
				all = append(all, text...)
			}
			return filter{field: field, texts: all}, len(all) > 0
		}
	case "startsWith":
		if !call.IsMemberFunction() {
			return filter{}, false
		}
		if field, text := fieldName(call.Target()), texts(args[0]); field != "" && len(text) == 1 {
			return filter{field: field, texts: text, prefix: true}, true
		}
	}
	return filter{}, false
}

func fieldName(e ast.Expr) string {
	if e.Kind() == ast.IdentKind && slices.Contains(filterable, e.AsIdent()) {
		return e.AsIdent()
	}
	return ""
}

// texts returns the value of a literal.
func texts(e ast.Expr) []string {
	if e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			return []string{string(s)}
		}
	}
	return nil
}

// contradict reports whether no request can pass all filters.
func contradict(filters []filter) bool {
	for i := range filters {
		for j := range filters[:i] {
			a, b := &filters[i], &filters[j]
			if a.field == b.field && !slices.ContainsFunc(a.texts, func(x string) bool {
				return slices.ContainsFunc(b.texts, func(y string) bool { return compatible(x, a.prefix, y, b.prefix) })
			}) {
				return true
			}
		}
	}
	return false
}

// compatible reports whether a text can be, or begin with, both.
func compatible(x string, xPrefix bool, y string, yPrefix bool) bool {
	switch {
	case xPrefix && yPrefix:
		return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
	case xPrefix:
		return strings.HasPrefix(y, x)
	case yPrefix:
		return strings.HasPrefix(x, y)
	}
	return x == y
}
