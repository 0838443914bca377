package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// clientInputs are what a client can write as it likes. The address, the user, the claims
// and the route are not among them: the service supplies these.
var clientInputs = []string{"request.headers", "request.query", "request.path", "request.host"}

// converting are functions of a text that fail for most texts. Functions of a position,
// such as charAt, are among them: a client can send a shorter text.
var converting = []string{
	"int", "uint", "double", "bool", "timestamp", "duration", "ip", "cidr", "charAt", "substring",
}

// failuresOf returns the inputs by which a client can make an expression fail: a text
// that is no number, a part left out. An entry that is absent is not among them; see
// inputs. It serves warnings only, so it may miss a way to fail: at run time on_error
// decides for every failure (decision 0504).
func failuresOf(a *cel.Ast, variables []*variable) (list []string) {
	visit(a, func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if v := variableNamed(e.AsIdent(), variables); v != nil {
				list = append(list, v.failures...)
			}
		case ast.CallKind:
			if failure := failureOf(e.AsCall(), a, variables); failure != "" {
				list = append(list, failure)
			}
		}
	})

	// One header that is used twice is one warning.
	slices.Sort(list)
	return slices.Compact(list)
}

// failureOf returns the input that makes a call fail, "" if a client has none.
func failureOf(call ast.CallExpr, a *cel.Ast, variables []*variable) string {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	if len(args) == 0 {
		return ""
	}

	// int(1.5) does not fail, so the type of the argument decides. A claim or a variable
	// of type dyn may be text.
	of := a.NativeRep().GetType(args[0].ID()).Kind()
	switch name := call.FunctionName(); {
	case slices.Contains(converting, name) && (of == types.StringKind || of == types.DynKind):
		if fromClient(args[0], variables) {
			return fmt.Sprintf("a text that %s rejects", name)
		}
	case name == operators.Index && of == types.ListKind:
		if fromClient(args[0], variables) {
			return "too few parts"
		}
	case name == operators.Divide || name == operators.Modulo:
		if fromClient(args[1], variables) {
			return "a divisor of 0"
		}
	}
	return ""
}

// fromClient reports whether an expression is made of what clients write.
func fromClient(e ast.Expr, variables []*variable) (found bool) {
	visitFrom(e, func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}

		// A variable hides the inputs that its own expression reads.
		found = found || slices.Contains(clientInputs, e.AsIdent())
		if v := variableNamed(e.AsIdent(), variables); v != nil {
			found = found || v.inputs.anyFromClient()
		}
	})
	return found
}

// anyFromClient reports whether any of the inputs is written by clients.
func (in inputs) anyFromClient() bool {
	for input := range in {
		base, _, _ := strings.Cut(strings.TrimPrefix(input, required), "[")
		if slices.Contains(clientInputs, base) {
			return true
		}
	}
	return false
}

// assumed returns the entries that an expression takes to be there without asking
// for them anywhere.
func (x *expression) assumed() (list []string) {
	// Both kinds of quotes make a text.
	source := strings.ReplaceAll(x.source, "'", `"`)
	for _, name := range x.inputs.sorted() {
		_, key, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")

		// A search in the text: it misses an entry that is asked for under a computed
		// name, and a warning too many is better than a silent one too few.
		asked := strings.Contains(source, "[?"+key) || strings.Contains(source, key+" in ") || strings.Contains(source, "has(")

		if x.inputs[required+name] && !asked {
			list = append(list, name)
		}
	}
	return list
}
