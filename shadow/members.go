package shadow

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// asked returns a side as this charge asks for it: with its limit or, of a group, with the members that the charge is for.
func (ev *evaluation) asked(role algorithms.Role) algorithms.Side {
	s := ev.sides[role].algorithm
	s.Limit = ev.limits[role]
	if g := ev.groups[role]; g != nil {
		s.Algorithm = g
	}
	return s
}

// limitOf returns the limit that a decision of a side is about: of a group the limit of the member, and without a
// member the one with the least capacity.
func (ev *evaluation) limitOf(role algorithms.Role, member string) *algorithms.Limit {
	g := ev.groups[role]
	if g == nil {
		return &ev.limits[role]
	}

	// Without a member the decision is one that no member has made, such as a fallback's: the tightest limit is shown.
	least := &g.Members[0].Limit
	for i := range g.Members {
		m := &g.Members[i]
		if m.Name == member {
			return &m.Limit
		}
		if m.Limit.Capacity() < least.Capacity() {
			least = &m.Limit
		}
	}
	return least
}

// sameMembers reports whether two groups decide alike if they have the same charges.
func sameMembers(a, b *algorithms.Group) bool {
	if a.Charge != b.Charge || len(a.Members) != len(b.Members) {
		return false
	}

	// In their order: until_denied charges other members where the order differs.
	for i := range a.Members {
		m, n := &a.Members[i], &b.Members[i]
		if algorithms.TraitsOf(m.Algorithm).Shape != algorithms.TraitsOf(n.Algorithm).Shape || !sameLimit(&m.Limit, &n.Limit) {
			return false
		}
	}
	return lua.HasScript(a) && lua.HasScript(b)
}

// groupOfOne returns a group that decides as the algorithm does. Beside a group only another one can be charged. Its member
// has no name, as a decision that no group has made.
func groupOfOne(a algorithms.Algorithm, l algorithms.Limit) *algorithms.Group {
	return &algorithms.Group{Members: []algorithms.Member{{Algorithm: a, Limit: l}}}
}

// timeToPayBy is how long a side needs to admit a cost: of a group as long as the slowest member.
func timeToPayBy(s *algorithms.Side, cost int64) (longest time.Duration) {
	g := s.Group()
	if g == nil {
		return timeToPay(cost, s.Limit)
	}
	for i := range g.Members {
		longest = max(longest, timeToPay(cost, g.Members[i].Limit))
	}
	return longest
}
