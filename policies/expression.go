package policies

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"
)

// expression is a compiled expression of a known type.
type expression struct {
	source  string
	result  *cel.Type
	program cel.Program
	inputs  inputs
	fails   []string // what a client can make it fail by
	filters []filter // that it implies as a condition
	whole   bool     // and they are all of it
	endless bool     // its cost depends on claims
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
			d.failAt(line, column, "%s: %s", what, explainIssue(env, n.Value, e))
		}
		return nil
	}
	if !oneOf(ast.OutputType(), types) {
		d.fail(n, "%s: the expression is of type %s: want %s", what, ast.OutputType(), typeNames(types))
		return nil
	}
	if d.upperCase(n, what, ast) {
		return nil
	}
	options, err := boundCost(env, ast)
	if err != nil {
		d.fail(n, "%s: %v", what, err)
		return nil
	}
	program, err := env.Program(ast, append(options, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		d.fail(n, "%s: %v", what, err)
		return nil
	}
	x := &expression{source: n.Value, result: ast.OutputType(), program: program, inputs: inputsOf(ast, d.scope.variables), endless: len(options) > 0}
	for name := range x.inputs.headers() {
		d.scope.headers[name] = canonicalName(name)
	}
	x.fails = failsOf(ast, d.scope.variables)
	if x.result.IsExactType(cel.BoolType) {
		x.filters, x.whole = filtersOf(ast)
	}
	return x
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
// place in the file: the expression's own where the scalar's line ends before it,
// for then YAML has joined that with the next one.
func (d *document) place(n *yaml.Node, line, column int) (int, int) {
	if line < 1 || column < 0 {
		return n.Line, n.Column // the expression as a whole
	}
	line, column = d.written(n, line, column)
	if line > len(d.lines) || column > 1+utf8.RuneCountInString(d.lines[line-1]) {
		return n.Line, n.Column
	}
	return line, column
}

// written is place as far as the style tells.
func (d *document) written(n *yaml.Node, line, column int) (int, int) {
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return n.Line + line, d.indentation(n.Line) + column + 1
	case n.Style&yaml.FoldedStyle != 0 || line > 1:
		return n.Line, n.Column // YAML has joined its lines
	case n.Style&yaml.DoubleQuotedStyle != 0 && d.escaped(n, "\\"), n.Style&yaml.SingleQuotedStyle != 0 && d.escaped(n, "''"):
		return n.Line, n.Column // what stands for less is before it
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return n.Line, n.Column + 1 + column
	}
	return n.Line, n.Column + column
}

// eval returns the expression's value for a request.
func (x *expression) eval(w *evaluation) (ref.Val, error) {
	v, err := x.evaluate(w)
	if err != nil {
		return nil, fmt.Errorf("policies: %s: %w", x.source, err)
	}
	return v, nil
}

// evaluate heeds the request's deadline where it could take long.
func (x *expression) evaluate(w *evaluation) (ref.Val, error) {
	if !x.endless {
		v, _, err := x.program.Eval(w)
		return v, err
	}

	// The deadline counts, and not a cancellation: a client that disconnects does not
	// make an expression fail.
	deadline, ok := w.ctx.Deadline()
	if !ok {
		v, _, err := x.program.Eval(w)
		return v, err
	}

	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	v, _, err := x.program.ContextEval(ctx, w)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return v, err
}

// indentation returns that of a literal block below a line: of its first line that
// is not blank.
func (d *document) indentation(line int) int {
	for _, text := range d.lines[min(line, len(d.lines)):] {
		if content := strings.TrimLeft(text, " "); content != "" {
			return len(text) - len(content)
		}
	}
	return 0
}

// escaped reports whether a scalar's line has an escape after its quote.
func (d *document) escaped(n *yaml.Node, escape string) bool {
	if n.Line > len(d.lines) {
		return false
	}
	text := []rune(d.lines[n.Line-1])
	return n.Column <= len(text) && strings.Contains(string(text[n.Column:]), escape)
}
