package policies

import (
	"context"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// expectation is a declared difference.
type expectation struct {
	when      *expression
	direction string
	until     time.Time
	owner     string
}

// Directions of a declared difference.
const (
	newlyDenied  = "newly_denied"
	newlyAllowed = "newly_allowed"
)

// maxExpected bounds the declared differences of a policy, each of which is judged
// for every request that the policy charges.
const maxExpected = 20

// Expected returns what is declared for a request at its time. A condition that
// fails declares nothing.
func (p *Policy) Expected(ctx context.Context, r *Request) (e algorithms.Expected) {
	for _, x := range p.Promotion.expected {
		if !r.Time.Before(x.until) {
			continue
		}
		if v, err := x.when.eval(r.evaluation(ctx, p.scope)); err != nil || v != types.True {
			continue
		}
		e.NewlyDenied = e.NewlyDenied || x.direction == newlyDenied
		e.NewlyAllowed = e.NewlyAllowed || x.direction == newlyAllowed
	}
	return e
}

// expected returns a reader of the declared differences.
func (d *document) expected(env *cel.Env, into *[]*expectation) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil
		items := d.items(n, "expected")
		if len(items) > maxExpected {
			d.fail(n, "expected: %d differences: at most %d", len(items), maxExpected)
			return
		}
		for _, item := range items {
			x := &expectation{}
			d.mapping(item, "an expected difference", map[string]field{
				"when":      {read: func(n *yaml.Node) { x.when = d.compile(env, n, "when", cel.BoolType) }, required: true},
				"direction": {read: d.choice("direction", &x.direction, newlyDenied, newlyAllowed), required: true},
				"until":     {read: d.until(&x.until), required: true},
				"owner":     {read: d.text("owner", &x.owner), required: true},
			})
			*into = append(*into, x)
		}
	}
}

// until returns a reader of the day, or the instant, at which a declaration ends.
func (d *document) until(into *time.Time) func(*yaml.Node) {
	return func(n *yaml.Node) {
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			if t, err := time.Parse(layout, n.Value); err == nil {
				if *into = t; !time.Now().Before(t) {
					d.warn(n, "until: that is over: the difference counts against the candidate again; decide what becomes of it")
				}
				return
			}
		}
		d.fail(n, "until: want the first day on which it counts again, such as 2027-03-31, or an instant such as 2027-03-31T12:00:00Z")
	}
}
