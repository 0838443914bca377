package shadow

import (
	"context"

	"github.com/shadowlimit/shadowlimit/policies"
)

// DecideEach judges several requests that come together, such as the descriptors of one question of Envoy, each as Decide
// does and in their order. Each store is asked once for all of them. It writes the decision of each request into the place
// of the same index, of which there must be as many, and returns all of them joined, as Decide joins those of policies.
//
// The memory of a call grows with the requests: bound their number.
func (h *Harness) DecideEach(ctx context.Context, requests []*policies.Request, into []Decision) Decision {
	s := h.engine.take()
	defer h.engine.give(s)

	// One plan for all: a reload between two of the requests would judge them by two files.
	now := h.engine.plan.Load()
	ends := make([]int, len(requests))
	for i, r := range requests {
		into[i] = h.check(ctx, s, now, r)
		ends[i] = len(s.checks)
	}
	if len(s.checks) > 0 {
		h.engine.evaluate(ctx, s)
	}

	all, from := unlimited(), 0
	for i, end := range ends {
		if end > from {
			h.settleOne(ctx, s, span{from, end}, &into[i])
		}
		all.join(&into[i])
		from = end
	}
	return all
}

// settleOne makes the decision of one request out of several, which has what its expressions have refused.
func (h *Harness) settleOne(ctx context.Context, s *scratch, of span, d *Decision) {
	refused := *d
	h.engine.settleAll(ctx, s, of, d)
	if !refused.Allowed {
		d.join(&refused)
	}
}
