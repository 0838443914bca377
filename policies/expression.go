package policies

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// expression is a compiled expression of a known type. It does not change, and any number
// of requests may evaluate it at once.
type expression struct {
	source  string // as in the file; epochs and messages are made of it
	result  *cel.Type
	program cel.Program
	plain   *plain // nil where CEL is needed
	endless bool   // its cost depends on claims, and is bounded at run time

	inputs   inputs
	failures []failure // for the linter

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

// evaluate ends with the deadline of the charge where the expression may take long.
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
