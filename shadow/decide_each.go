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
	s := h.engine.Take()
	defer h.engine.Give(s)

	// One plan for all: a reload between two of the requests would judge them by two files.
	now := h.engine.Plan.Load()
	ends := make([]int, len(requests))
	for i, r := range requests {
		into[i] = h.check(ctx, s, now, r)
		ends[i] = s.Len()
	}
	h.engine.Judge(ctx, s)

	all, from := unlimited(), 0
	for i, end := range ends {
		refused := into[i]
		into[i].joinAll(s, from, end, &refused)
		all.join(&into[i])
		from = end
	}
	return all
}
