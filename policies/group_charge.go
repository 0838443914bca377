package policies

import (
	"context"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// chargeGroup is ChargeInto for a group: one charge for all members whose conditions hold.
func (p *Policy) chargeGroup(ctx context.Context, r *Request, c *algorithms.Charge) (matches bool, err error) {
	// Conditions come first, as for a plain policy: a request that no member is for needs no key.
	w := r.evaluation(ctx, p.scope)
	matching, err := p.matching(w)
	if err != nil || matching == 0 {
		return false, err
	}

	// Key and cost are the group's, so that its members have one record.
	*c = algorithms.Charge{Policy: p.Name}
	if c.Key, err = p.key.value(w); err != nil {
		return false, err
	}
	if c.Cost, err = p.costOf(w); err != nil {
		return false, err
	}

	// A group without a candidate has one side, as a plain policy has.
	for role, side := range p.Sides {
		if side == nil {
			continue
		}

		// Both sides have the same members: they are compared for one request.
		g, failure := side.groupOf(w, matching)
		if failure != nil && role == int(algorithms.Authoritative) {
			return false, failure
		}

		// A candidate with a limit that fails is refused as a whole, as one without a group is.
		c.Sides[role] = algorithms.Side{ID: side.ID, Algorithm: g}
	}
	return true, nil
}

// matching returns the members whose conditions hold for a request, as bits. A condition that fails leaves open what the
// group is charged, so it is the whole charge's failure.
func (p *Policy) matching(w *evaluation) (bits int, err error) {
	for i, m := range p.Members {
		matches, err := m.matches(w)
		if err != nil {
			return 0, err
		}
		if matches {
			bits |= 1 << i
		}
	}
	return bits, nil
}
