package policies

import (
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

// adaptiveSides warns of limits that no level lowers, and of costs that no request can pay while the service suffers.
func (l *linter) adaptiveSides(p *Policy, at places) {
	for role, side := range p.Sides {
		if side == nil || side.adaptive == nil {
			continue
		}

		// A limit of 0 is meant to deny every request.
		whole, _ := side.Constant()
		if whole.Requests == 0 {
			continue
		}
		if rule := &side.adaptive.rule; unreached(rule) {
			l.warn(at[algorithms.Role(role).String()], "adaptive: no %s is above 100%%, so a level that asks for that never holds: "+
				"choose a smaller value", rule.Signal)
		}
		least := side.AtLevel(side.adaptive.rule.Least())
		switch most := least.Capacity(); {
		case least == whole:
			l.warn(at[algorithms.Role(role).String()], "adaptive: no level lowers this limit, of which each leaves 1 at least: leave adaptive out, "+
				"or give more requests for a longer window")
		case p.cost.expression == nil && p.cost.constant > most && p.cost.constant <= whole.Capacity():
			l.warn(at["cost"], "cost: %d is more than the %s allows at once at its least level, %d: every request is denied while that holds",
				p.cost.constant, algorithms.Role(role), most)
		}
	}
}

// unreached reports whether a rule waits for a ratio above 1, which there is not.
func unreached(r *adaptive.Rule) bool {
	return r.Signal != adaptive.LatencyP99 && (r.Target >= adaptive.Million ||
		slices.ContainsFunc(r.Steps, func(s adaptive.Step) bool { return s.Above >= adaptive.Million }))
}
