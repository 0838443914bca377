package policies

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// expression is a compiled expression of a known type. It does not change, and any number
// of requests may evaluate it at once.
type expression struct {
	source  string // as in the file; fingerprints and messages are made of it
	result  *cel.Type
	program cel.Program
	plain   *plain // nil where CEL is needed
	endless bool   // its cost depends on claims, and is bounded at run time

	inputs inputs

	// A condition is kept with its environment, so that a tool can ask which part of it is false.
	checked *cel.Ast
	env     *cel.Env

	// A condition implies these, so that most evaluations can be left out. Expressions of
	// another type than bool have none.
	filters     []filter
	onlyFilters bool // the condition is the filters and nothing else
}

// eval returns the expression's value for a request. The error names the source: a file
// has many expressions, and the log shows the error of one.
func (x *expression) eval(w *evaluation) (ref.Val, error) {
	v, err := x.evaluate(w)
	if err != nil {
		return nil, fmt.Errorf("policies: %s: %w", x.source, err)
	}
	return v, nil
}

// evaluate ends with the deadline of the check where the expression may take long.
func (x *expression) evaluate(w *evaluation) (ref.Val, error) {
	if !x.endless {
		v, _, err := x.program.Eval(w)
		return v, err
	}

	// Only the deadline counts, not a cancellation: a client that disconnects is not
	// an expression that fails.
	deadline, ok := w.ctx.Deadline()
	if !ok {
		v, _, err := x.program.Eval(w)
		return v, err
	}

	// The context costs an allocation and a timer, which only these expressions pay.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	v, _, err := x.program.ContextEval(ctx, w)
	if ctx.Err() != nil {
		err = ctx.Err() // CEL's own error does not say that it was the deadline
	}
	return v, err
}

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

// textsOf returns the texts one of which a field must equal for the condition to be true; nil if there are none.
func (x *expression) textsOf(field string) (texts []string) {
	// A prefix stands for texts without an end, which no table can have.
	for _, f := range x.filters {
		if f.field != field || slices.ContainsFunc(f.accepts, func(p pattern) bool { return p.prefix }) {
			continue
		}
		for _, p := range f.accepts {
			texts = append(texts, p.text)
		}
		return texts
	}
	return nil
}

func (x *expression) keyElement(w *evaluation) (string, error) {
	// Most keys are one field or header of the request. Where it is absent, CEL has the error's words.
	if x.plain != nil {
		if text, ok := x.plain.value(w.request); ok {
			return text, nil
		}
	}

	v, err := x.eval(w)
	if err != nil {
		return "", err
	}

	text, err := keyText(v)
	if err != nil {
		return "", fmt.Errorf("policies: key %s: %w", x.source, err)
	}
	return text, nil
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

// number is a whole number, written as one or as an expression. A limit or a burst that
// was not given is the zero value. Beside an expression the constant is 0, and means
// nothing.
type number struct {
	constant   int64
	expression *expression // nil: constant
	unsaid     bool        // a cost that the file leaves to the caller
}

// wholeNumber is how a file writes one, also one that is too large for YAML's own.
var wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)

// readCost returns a reader of a policy's cost. A cost of 0 is a peek, and a policy without one leaves it to the caller.
func readCost(c *compiler, into *number) func(*yaml.Node) {
	return func(n *yaml.Node) {
		into.unsaid = false
		c.number("cost", into, 0)(n)
	}
}

func (x number) value(w *evaluation) (int64, error) {
	if x.expression == nil {
		return x.constant, nil
	}

	v, err := x.expression.eval(w)
	if err != nil {
		return 0, err
	}

	// The checker has seen to the type: another value would be a mistake of CEL.
	n, ok := v.(types.Int)
	if !ok {
		return 0, fmt.Errorf("policies: %s: got %v: want an int", x.expression.source, v)
	}
	return int64(n), nil
}

// text is the number as configured; fingerprints are made of it.
func (x number) text() string {
	if x.expression == nil {
		return strconv.FormatInt(x.constant, 10)
	}
	return x.expression.source
}
