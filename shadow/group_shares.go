package shadow

import (
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// groupShares keep the last share of each side's group. A request has mostly the members and the number of instances of the
// one before, and to work out the share again would allocate in each request.
type groupShares [2]atomic.Pointer[groupShare] // by role

// groupShare is the share of a group for every cost up to its capacity.
type groupShare struct {
	whole, share        *algorithms.Group
	instances, capacity int64
}

// grouped reports whether the sides are groups, or one is beside a foreign limiter.
func (m *migration) grouped() bool { return m.shares != nil }

// of returns one instance's share of each member's limit, and whether a charge of that cost is too large for the share of a
// window, and not for the group.
func (s *groupShares) of(r algorithms.Role, whole *algorithms.Group, instances, cost int64) (share *algorithms.Group, tooLarge bool) {
	kept := s[r].Load()
	if kept == nil || kept.whole != whole || kept.instances != instances {
		share, _ := shareOfGroup(whole, instances, 0)
		kept = &groupShare{whole, share, instances, share.Capacity()}
		s[r].Store(kept)
	}

	// A larger cost has a share of its own: see shareOf.
	if cost <= kept.capacity {
		return kept.share, false
	}
	return shareOfGroup(whole, instances, cost)
}

// shareOfGroup is the share for one cost.
func shareOfGroup(whole *algorithms.Group, instances, cost int64) (share *algorithms.Group, tooLarge bool) {
	share = &algorithms.Group{Charge: whole.Charge, Members: make([]algorithms.Member, len(whole.Members))}
	for i, m := range whole.Members {
		part, more := shareOf(m.Algorithm, m.Limit, instances, cost)
		tooLarge = tooLarge || more

		// A share that is too fine to be exact is asked for coarsely, as the share of a side alone is.
		if part.Requests > 0 && m.Algorithm.Validate(part) != nil && m.Algorithm.Validate(m.Limit) == nil {
			part = coarse(part)
		}
		m.Limit = part
		share.Members[i] = m
	}
	return share, tooLarge && cost <= whole.Capacity()
}
