package policies

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// expectation is a declared difference. Its owner is the person or team to ask when
// it ends: every message about the declaration names them. until is the first instant at
// which the difference counts again.
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

// maxExpected bounds the declared differences of a policy, each of which is evaluated
// for every request that the policy charges.
const maxExpected = 20

// Expected returns the differences that are declared for a request at its time. It must
// be asked when the request is charged, because the outcome may be known only when the
// request is gone (decision 0503). A condition that fails declares nothing: the difference
// then counts against the candidate, which is the safe side.
func (p *Policy) Expected(ctx context.Context, r *Request) (e algorithms.Expected) {
	for _, x := range p.Promotion.expected {
		if !r.Time.Before(x.until) {
			continue
		}

		// One condition that fails does not take the others away.
		v, err := x.when.eval(r.evaluation(ctx, p.scope))
		if err != nil || v != types.True {
			continue
		}
		e.NewlyDenied = e.NewlyDenied || x.direction == newlyDenied
		e.NewlyAllowed = e.NewlyAllowed || x.direction == newlyAllowed
	}
	return e
}

// Declarations describes the declared differences, one a line: "newly_denied until
// 2027-03-31, owner team-batch, when variables.tenant == ...".
func (p *Policy) Declarations() []string {
	list := make([]string, len(p.Promotion.expected))
	for i, x := range p.Promotion.expected {
		condition := strings.TrimSpace(x.when.source)
		list[i] = fmt.Sprintf("%s until %s, owner %s, when %s", x.direction, day(x.until), humanize.Printable(x.owner), condition)
	}
	return list
}

// day writes the end of a declaration as briefly as the file can have it.
func day(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.UTC().Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// expected returns a reader of the declared differences.
func (c *compiler) expected(into *[]*expectation) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = nil // a policy's list replaces the file's
		items := c.items(n, "expected")
		if len(items) > maxExpected {
			c.fail(n, "expected: %d differences: at most %d", len(items), maxExpected)
			return
		}

		for _, item := range items {
			*into = append(*into, c.expectation(item))
		}
	}
}

// expectation reads one declared difference, and warns if it has ended: the file then
// says that a difference is wanted which counts against the candidate.
func (c *compiler) expectation(n *yaml.Node) *expectation {
	x := &expectation{}
	untilAt := n
	c.mapping(n, "an expected difference", map[string]field{
		"when":      {read: func(n *yaml.Node) { x.when = c.compile(n, "when", cel.BoolType) }, required: true},
		"direction": {read: c.choice("direction", &x.direction, newlyDenied, newlyAllowed), required: true},
		"until": {required: true, read: func(n *yaml.Node) {
			untilAt = n
			c.until(&x.until)(n)
		}},
		"owner": {read: c.text("owner", &x.owner), required: true},
	})

	// An old declaration still loads: a service must not fail to start on the day after.
	if !x.until.IsZero() && !time.Now().Before(x.until) {
		c.warn(untilAt, "until: the declaration ended on %s, and the difference counts against the candidate again; "+
			"ask its owner, %s, whether to extend it or to remove it", day(x.until), x.owner)
	}
	return x
}

// until returns a reader of the day, or the instant, at which a declaration ends.
func (r *reader) until(into *time.Time) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A day begins at midnight UTC, as in the change window without a zone.
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			if t, err := time.Parse(layout, n.Value); err == nil {
				*into = t
				return
			}
		}

		r.fail(n, "until: want the first day on which the difference counts again, such as 2027-03-31, "+
			"or an instant such as 2027-03-31T12:00:00Z")
	}
}
