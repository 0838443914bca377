package policies

import (
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// pointless warns of a policy that limits nothing, or not the clients that its author means, although each of its fields is valid.
func (l *linter) pointless(p *Policy, at places) {
	// A cost that an expression yields may be 0 for some requests, which only look.
	if p.cost.expression == nil && !p.cost.unsaid && p.cost.constant == 0 {
		l.warn(at["cost"], "cost: every request is a peek, so the policy limits nothing: leave cost out, or write 1")
	}

	// One key that is a condition has two values for all clients together.
	if len(p.key) == 1 && p.key[0].result.IsExactType(cel.BoolType) {
		l.warn(at["key"], "key: it is true or false, so all clients share two budgets: a condition stands in when")
	}

	// A second one makes the key longer and tells no client from another.
	for i, x := range p.key {
		for _, earlier := range p.key[:i] {
			if x.source == earlier.source {
				l.warn(at["key"], "key: %s stands in it twice: leave one out", x.source)
				return
			}
		}
	}
}

// deniesAbsent warns of a condition that fails for requests that the policy is not meant for, where on_error denies them. The
// remedy of a negated condition is that denial, so it is left alone.
func (l *linter) deniesAbsent(p *Policy, at places) {
	if p.OnError != FailDeny || p.when == nil || strings.Contains(p.when.source, "!") {
		return
	}

	if absent := p.when.assumed(); len(absent) > 0 {
		l.warn(at["when"], "when: for a request without %s the condition fails, and on_error: deny denies the request: "+
			"give it a default, such as [?...].orValue(\"none\")", absent[0])
	}
}

// neverRefilled warns of steps of a refill that bring more than a bucket holds: what does not fit is lost at each of them.
func (l *linter) neverRefilled(p *Policy, at places) {
	for role, side := range p.Sides {
		// The numbers of an expression are known only when a request comes.
		if side == nil || side.Foreign() || side.members != nil || !side.constant() || side.options.Refill == 0 {
			continue
		}

		// A step brings refill / window of the limit. Both are below 2^53, as a window is at most a year.
		limit := algorithms.Limit{Requests: side.limit.constant, Burst: side.burst.constant}
		brought := float64(side.limit.constant) * float64(side.options.Refill) / float64(side.window)
		if most := limit.Capacity(); brought > float64(most) {
			field := algorithms.Role(role).String()
			l.warn(at[field], "%s: each step of refill brings more than the burst of %d holds, and the rest is lost: "+
				"take a shorter refill, or a burst of at least %.0f", field, most, brought)
		}
	}
}
