package limitertest

import (
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// memberNames are more than a group has members, so that sides forget some, and few, so that members of one name come
// back with another algorithm or limit.
const memberNames = 10

// sideOf returns a random side for the key: a group for a key of groups.
func (t *Trace) sideOf(k *traceKey) algorithms.Side {
	if !k.groups {
		return t.side()
	}

	// Two to four members: with more of them nearly every charge is denied by one.
	g := &algorithms.Group{Charge: algorithms.GroupCharge(t.rng.IntN(2))}
	for range 2 + t.rng.IntN(3) {
		g.Members = append(g.Members, t.member(g))
	}
	return algorithms.Side{ID: fmt.Sprintf("id%d", t.rng.IntN(3)), Algorithm: g}
}

// member returns a random member that the group has room for. Few of them are refused.
func (t *Trace) member(g *algorithms.Group) algorithms.Member {
	// Names are few, so that members leave and come back under another algorithm or limit.
	for {
		a := algorithms.All[t.rng.IntN(len(algorithms.All))]
		m := algorithms.Member{Name: fmt.Sprintf("m%d", t.rng.IntN(memberNames)), Algorithm: a, Limit: t.limit(a)}

		// These options are refused there: a denial would leave a trace in a member that was not charged.
		if g.Charge == algorithms.AllOrNothing {
			m.Limit.CountDenied, m.Limit.Forget = false, 0
		}

		known := slices.ContainsFunc(g.Members, func(other algorithms.Member) bool { return other.Name == m.Name })
		if !known && canBeMember(a) {
			return m
		}
	}
}

// regroup changes a side that is a group as operators do: another limit, a member less, more or replaced, another order.
// A Group that was charged is never changed: pairs may keep it.
func (t *Trace) regroup(s *algorithms.Side) {
	old := s.Group()
	g := &algorithms.Group{Charge: old.Charge, Members: slices.Clone(old.Members)}
	i := t.rng.IntN(len(g.Members))

	// A new version of a policy file changes a limit, removes a member, adds one, or writes them in another order.
	switch t.rng.IntN(5) {
	case 0, 1:
		m := &g.Members[i]
		m.Limit = t.limit(m.Algorithm)
		if g.Charge == algorithms.AllOrNothing {
			m.Limit.CountDenied, m.Limit.Forget = false, 0
		}
	case 2:
		if len(g.Members) > 1 {
			g.Members = slices.Delete(g.Members, i, i+1)
		}
	case 3:
		if len(g.Members) < algorithms.MaxMembers {
			g.Members = slices.Insert(g.Members, i, t.member(g))
		}
	default:
		g.Members = append(g.Members[i:], g.Members[:i]...)
	}
	s.Algorithm = g
}

// choose leaves members out of some charges, as their conditions do.
func (t *Trace) choose(c *algorithms.Charge) {
	for r := range c.Sides {
		g := c.Sides[r].Group()
		if g == nil || !t.chance(30) {
			continue
		}

		// A request may match the conditions of some members only. The record keeps the others.
		chosen := &algorithms.Group{Charge: g.Charge}
		for i := range g.Members {
			if t.chance(60) {
				chosen.Members = append(chosen.Members, g.Members[i])
			}
		}
		if len(chosen.Members) > 0 {
			c.Sides[r].Algorithm = chosen
		}
	}
}

// limitOf returns the side's limit, or the limit of one of its members: a charge aims at its boundaries.
func (t *Trace) limitOf(s algorithms.Side) algorithms.Limit {
	if g := s.Group(); g != nil {
		return g.Members[t.rng.IntN(len(g.Members))].Limit
	}
	return s.Limit
}
