package policies

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

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

// number returns a reader of a whole number from least on, or an expression of
// type int. What an expression yields is checked for each request.
func (c *compiler) number(what string, into *number, least int64) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && wholeNumber.MatchString(n.Value) {
			c.count(what, &into.constant, least)(n)
			return
		}

		if _, err := strconv.ParseFloat(n.Value, 64); err == nil || n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
			c.fail(n, "%s: want a whole number, such as 100, or an expression of type int", what)
			return
		}
		into.expression = c.compile(n, what, cel.IntType)
	}
}

// cost returns a reader of a policy's cost. A cost of 0 is a peek, and a policy without one leaves it to the caller.
func (c *compiler) cost(into *number) func(*yaml.Node) {
	return func(n *yaml.Node) {
		into.unsaid = false
		c.number("cost", into, 0)(n)
	}
}

// value returns the number for a request.
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

// text is the number as configured; epochs are made of it.
func (x number) text() string {
	if x.expression == nil {
		return strconv.FormatInt(x.constant, 10)
	}
	return x.expression.source
}
