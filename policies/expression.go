package policies

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// Bounds of an expression, so that none can stall the loader or a request.
const (
	maxExpressionBytes = 4096
	maxExpressionDepth = 32
	maxLoopsInLoops    = 1
)

// requestVariables are what expressions know of a request. Dotted names instead
// of one map: a typing error is found when the file is loaded.
var requestVariables = []cel.EnvOption{
	cel.Variable("request.method", cel.StringType),
	cel.Variable("request.path", cel.StringType),
	cel.Variable("request.route", cel.StringType),
	cel.Variable("request.host", cel.StringType),
	cel.Variable("request.query", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("request.headers", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("request.ip", cel.StringType),
	cel.Variable("request.user", cel.StringType),
	cel.Variable("request.claims", cel.MapType(cel.StringType, cel.DynType)),
	cel.Variable("request.size", cel.IntType),
	cel.Variable("request.time", cel.TimestampType),
}

// newEnv returns the environment that expressions are compiled in. The error is
// a mistake of this package.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(append([]cel.EnvOption{
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(maxExpressionBytes),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(), cel.ValidateComprehensionNestingLimit(maxLoopsInLoops),
		),
	}, requestVariables...)...)
}

// expression is a compiled expression of a known type.
type expression struct {
	source  string
	result  *cel.Type
	program cel.Program
}

// compile compiles the expression of a scalar node, which must be of one of the
// types. It returns nil after noting what is wrong.
func (d *document) compile(env *cel.Env, n *yaml.Node, what string, types ...*cel.Type) *expression {
	if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
		d.fail(n, "%s: want a CEL expression", what)
		return nil
	}
	ast, issues := env.Compile(n.Value)
	if issues != nil && issues.Err() != nil {
		for _, e := range issues.Errors() {
			line, column := d.place(n, e.Location.Line(), e.Location.Column())
			d.failAt(line, column, "%s: %s", what, e.Message)
		}
		return nil
	}
	if !oneOf(ast.OutputType(), types) {
		d.fail(n, "%s: the expression is of type %s: want %s", what, ast.OutputType(), typeNames(types))
		return nil
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		d.fail(n, "%s: %v", what, err)
		return nil
	}
	return &expression{n.Value, ast.OutputType(), program}
}

func oneOf(t *cel.Type, types []*cel.Type) bool {
	for _, want := range types {
		if t.IsExactType(want) {
			return true
		}
	}
	return len(types) == 0
}

func typeNames(types []*cel.Type) string {
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = t.String()
	}
	return strings.Join(list, " or ")
}

// place turns a place in an expression, line from 1 and column from 0, into a
// place in the file.
func (d *document) place(n *yaml.Node, line, column int) (int, int) {
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		at := n.Line + line
		if at > len(d.lines) {
			return n.Line, n.Column
		}
		text := d.lines[at-1]
		return at, utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " ")) + column + 1
	case line > 1:
		return n.Line, n.Column // a scalar over several lines: YAML has folded them
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return n.Line, n.Column + 1 + column
	}
	return n.Line, n.Column + column
}

// eval returns the expression's value for a request.
func (x *expression) eval(r *Request) (ref.Val, error) {
	v, _, err := x.program.Eval(r)
	if err != nil {
		return nil, fmt.Errorf("policies: %s: %w", x.source, err)
	}
	return v, nil
}
