package policies

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// members are the limits of a group's side, in the order of the file.
type members struct {
	charge algorithms.GroupCharge
	names  []string
	whens  []string // as configured, "" for a member that matches every request
	sides  []*Side
	// made are the groups of constant limits, by the members that match, as bits: a request needs no new one.
	made []atomic.Pointer[algorithms.Group]
}

// groupSide makes one side of a group of its members' sides.
func groupSide(p *Policy, role algorithms.Role) *Side {
	m := &members{charge: p.Together, made: make([]atomic.Pointer[algorithms.Group], 1<<len(p.Members))}
	s := &Side{members: m}
	for _, member := range p.Members {
		when := ""
		if member.when != nil {
			when = member.when.source
		}
		m.names, m.whens = append(m.names, member.Name), append(m.whens, when)
		m.sides = append(m.sides, member.Sides[role])
	}

	// Without a request the side has all members: its identity must not depend on which of them the first request is for.
	s.ID, s.Store = m.id(), m.sides[0].Store
	s.Algorithm, _ = s.groupOf(nil, 1<<len(p.Members)-1)
	return s
}

// id names the side's state by the ids of the members' sides, each once: it does not depend on how many members have the same
// one, so a member more or less keeps the states of the others.
func (m *members) id() string {
	// In order, so that members may change places in the file.
	ids := make([]string, len(m.sides))
	for i, side := range m.sides {
		ids[i] = side.Bare().Name()
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "+")
}

// constant reports whether all members have the same limits for every request.
func (m *members) constant() bool {
	return !slices.ContainsFunc(m.sides, func(s *Side) bool { return !s.constant() })
}

// groupOf returns the side's group for the members of matching, as bits. Without a request, w is nil, and limits of
// expressions are 0. On an error a member has the zero limit, which every algorithm refuses, so the whole group is refused.
func (s *Side) groupOf(w *evaluation, matching int) (*algorithms.Group, error) {
	if known := s.members.made[matching].Load(); known != nil {
		return known, nil
	}

	g, failure := &algorithms.Group{Charge: s.members.charge, Members: make([]algorithms.Member, 0, len(s.members.sides))}, error(nil)
	for i, side := range s.members.sides {
		if matching&(1<<i) == 0 {
			continue
		}

		// The first failure is told. The others are found once it is mended.
		limit, constant := side.Constant()
		if !constant && w != nil {
			var err error
			if limit, err = side.limitOf(w); err != nil && failure == nil {
				failure = err
			}
		}
		g.Members = append(g.Members, algorithms.Member{Name: s.members.names[i], Algorithm: side.Algorithm, Limit: limit})
	}

	// Constant limits make the same group for each request that these members match.
	if s.members.constant() {
		s.members.made[matching].Store(g)
	}
	return g, failure
}

// String writes the members in the order of the file, each with its limit in the short form.
func (m *members) String() string {
	list := make([]string, len(m.sides))
	for i, side := range m.sides {
		list[i] = m.names[i] + "=" + side.String()
	}
	return m.charge.String() + "(" + strings.Join(list, ", ") + ")"
}

// identity is the side's share of the epoch. Under all_or_nothing the order of the members decides nothing.
func (m *members) identity() string {
	// A member's condition is part of its limit: with another one, other requests pay.
	list := make([]string, len(m.sides))
	for i, side := range m.sides {
		list[i] = m.names[i] + "\x02" + m.whens[i] + "\x02" + side.identity()
	}
	if m.charge == algorithms.AllOrNothing {
		slices.Sort(list)
	}
	return m.charge.String() + "\x03" + strings.Join(list, "\x03")
}

// withoutIDs returns the members with sides that have no ids.
func (m *members) withoutIDs() *members {
	if m == nil {
		return nil
	}

	// The members belong to a file that is in use, so a copy loses the ids.
	bare := *m
	bare.sides = make([]*Side, len(m.sides))
	for i, side := range m.sides {
		copied := *side
		copied.ID = ""
		bare.sides[i] = &copied
	}
	return &bare
}
