package policies

import (
	"net/http"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Response is what a settlement sees of the answer to a request.
type Response struct {
	Status int
	// Headers are seen as those of a Request.
	Headers http.Header
	// Size is the length of the body in bytes, as far as it was sent.
	Size int64
	// Duration is the time from the decision to the end of the answer.
	Duration time.Duration
}

// responseVariables are the names of a response's fields. Only settle sees them.
var responseVariables = []cel.EnvOption{
	cel.Variable("response.status", cel.IntType),
	cel.Variable("response.headers", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("response.size", cel.IntType),
	cel.Variable("response.seconds", cel.DoubleType),
}

// resolve returns the value of a field.
func (a *Response) resolve(name string) (any, bool) {
	switch name {
	case "response.status":
		return types.Int(a.Status), true
	case "response.headers":
		return lowerHeaders(a.Headers), true
	case "response.size":
		return types.Int(a.Size), true
	case "response.seconds":
		return types.Double(a.Duration.Seconds()), true
	}
	return nil, false
}

// readSettle compiles the expression of a final cost, which alone sees the response.
func readSettle(c *compiler, n *yaml.Node) *expression {
	env, err := c.env.Extend(responseVariables...)
	if err != nil {
		c.fail(n, "settle: %v", err)
		return nil
	}
	with := *c
	with.env = env
	return with.compile(n, "settle", cel.IntType)
}

// checkSettle refuses a settlement of what cannot be changed afterwards.
func checkSettle(c *compiler, n *yaml.Node, p *Policy) {
	if n == nil {
		return
	}
	for role, s := range p.Sides {
		why := ""
		switch {
		case s == nil:
		case s.Custom():
			why = "is a limiter of the program, whose charges this program cannot change"
		case s.Sync > 0:
			why = "is synchronized, and tells the others what it has admitted before the answer is known"
		}
		if why != "" {
			c.fail(n, "settle: the %s %s: leave out settle, or take an algorithm without sync", algorithms.Role(role), why)
		}
	}
	if p.cost.expression == nil && p.cost.constant == 0 && !p.cost.unsaid {
		c.fail(n, "settle: a cost of 0 charges nothing, so there is nothing to settle: write the most that a request may cost as cost")
	}
}
