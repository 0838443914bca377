package policies

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// visit calls f for each part of an expression, the innermost first.
func visit(a *cel.Ast, f func(ast.Expr)) { visitFrom(a.NativeRep().Expr(), f) }

// visitFrom visits an expression and all that it is made of, the inner ones first.
func visitFrom(e ast.Expr, f func(ast.Expr)) { ast.PostOrderVisit(e, ast.NewExprVisitor(f)) }

// isText reports whether an expression is a text that is written out.
func isText(e ast.Expr) bool {
	if e.Kind() != ast.LiteralKind {
		return false
	}
	_, ok := e.AsLiteral().(types.String)
	return ok
}

// literal returns the value of a text that is written out, "" for another expression.
func literal(e ast.Expr) string {
	if !isText(e) {
		return ""
	}
	return string(e.AsLiteral().(types.String))
}
