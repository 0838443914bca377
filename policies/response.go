package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"go.yaml.in/yaml/v3"
)

// ResponseExpression says of a line of a log whether today's limiter denied the request. It sees response.status, a number,
// and every field of the line as a text, response.limit_req_status for example. It is immutable and safe for concurrent use.
type ResponseExpression struct{ x *expression }

// statusName is the variable that is a number.
const statusName = "response.status"

// responseNames find the fields that an expression names.
var responseNames = regexp.MustCompile(`\bresponse\.([A-Za-z_][A-Za-z0-9_]*)`)

// ParseResponse compiles an expression, which must be of the type bool and read the response. The error is a *Problems; file is
// the name that its messages lead with.
func ParseResponse(file, text string) (*ResponseExpression, error) {
	r := &reader{Problems{File: file, lines: []string{text}}}
	c, err := newCompiler(r)
	if err != nil {
		return nil, fmt.Errorf("policies: parse response: %w", err)
	}

	// A log has any fields, so the ones in the expression are declared.
	names := []cel.EnvOption{cel.Variable(statusName, cel.IntType)}
	var seen []string
	for _, found := range responseNames.FindAllString(text, -1) {
		if found != statusName && !slices.Contains(seen, found) {
			seen = append(seen, found)
			names = append(names, cel.Variable(found, cel.StringType))
		}
	}
	if c.env, err = newEnv(names); err != nil {
		return nil, fmt.Errorf("policies: parse response: %w", err)
	}

	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text, Line: 1, Column: 1}
	x := c.compile(n, "the response", cel.BoolType)
	if x != nil && !responseNames.MatchString(text) {
		c.fail(n, "the response: the expression reads nothing of it: want such as response.status == 429")
	}
	if r.Failed() {
		return nil, &r.Problems
	}
	return &ResponseExpression{x}, nil
}

// Of returns the answer for a line, whose fields are asked for by name. The error says why the line has no answer, as where it
// lacks a field.
func (e *ResponseExpression) Of(field func(name string) (string, bool)) (denied bool, err error) {
	v, _, err := e.x.program.Eval(response{field})
	if err != nil {
		return false, fmt.Errorf("policies: %s: %w", e.x.source, err)
	}
	return v == types.True, nil
}

// response finds the variables of a line.
type response struct {
	field func(name string) (string, bool)
}

// ResolveName implements cel.Activation. A status that is no number is none.
func (r response) ResolveName(name string) (any, bool) {
	text, found := r.field(name[len("response."):])
	if !found || name != statusName {
		return text, found
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Parent implements cel.Activation.
func (response) Parent() interpreter.Activation { return nil }
