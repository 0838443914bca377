package policies

import (
	"context"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Part is one of the parts of a policy's condition that && joins. It tells the reason why a condition is false.
type Part struct {
	Text    string // as CEL writes it
	program cel.Program
	scope   *scope
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

// alone makes a program of a part of an expression.
func (x *expression) alone(e ast.Expr, info *ast.SourceInfo) (text string, program cel.Program, ok bool) {
	text, err := cel.ExprToString(e, info)
	if err != nil {
		return "", nil, false
	}
	// The text is compiled again, because a program needs a checked expression of its own.
	compiled, issues := x.env.Compile(text)
	if issues.Err() != nil {
		return "", nil, false
	}
	program, err = x.env.Program(compiled)
	return text, program, err == nil
}

// conjuncts returns the expressions that && joins.
func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd {
		return []ast.Expr{e}
	}
	var list []ast.Expr
	for _, arg := range e.AsCall().Args() {
		list = append(list, conjuncts(arg)...)
	}
	return list
}

// Holds reports whether the part is true for a request. A part that fails does not hold.
func (p *Part) Holds(ctx context.Context, r *Request) bool {
	v, _, err := p.program.Eval(r.evaluation(ctx, p.scope))
	return err == nil && v == types.True
}

// Inputs returns the fields of a request that a charge of the policy reads, such as request.path or
// request.headers["x-tenant"], in order.
func (p *Policy) Inputs() []string { return inputsIn(p.expressions()) }

// KeyInputs returns the inputs that the key reads. A key that reads none is the same for every request.
func (p *Policy) KeyInputs() []string { return inputsIn(p.key) }

// Inputs returns the fields of a request that the key reads.
func (k *KeyExpression) Inputs() []string { return inputsIn(k.key) }

// inputsIn returns what any of the expressions reads, each once.
func inputsIn(list []*expression) []string {
	all := inputs{}
	for _, x := range list {
		for name := range x.inputs {
			all[name] = true
		}
	}
	return all.sorted()
}
