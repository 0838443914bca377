package replay

import "github.com/shadowlimit/shadowlimit/algorithms"

// groups are distinct groups. Requests come with groups of their own where expressions decide the limits of members, and
// most of them are equal.
type groups map[groupValue]*algorithms.Group

// groupValue is a group as a value that can be compared.
type groupValue struct {
	charge  algorithms.GroupCharge
	size    int
	members [algorithms.MaxMembers]algorithms.Member
}

// one returns the first group that was equal to the given one; nil for none.
func (known *groups) one(g *algorithms.Group) *algorithms.Group {
	if g == nil {
		return nil
	}

	value := groupValue{charge: g.Charge, size: len(g.Members)}
	copy(value.members[:], g.Members)
	if first := (*known)[value]; first != nil {
		return first
	}
	if *known == nil {
		*known = groups{}
	}
	(*known)[value] = g
	return g
}

// ask gives the sides of a charge what its event says of them, and the candidate what the run changes.
func (r *run) ask(c *algorithms.Charge, e *event) {
	if e.terms == 0 && r.change == nil {
		return
	}

	// All events have terms or none has, so no limit of the batch before stays.
	sides := r.cfg.Sides
	if e.terms > 0 {
		terms := &r.events.terms[e.terms-1]
		for role := range sides {
			sides[role].Limit = terms.Limits[role]
			if g := terms.Groups[role]; g != nil {
				sides[role].Algorithm = g
			}
		}
	}

	candidate := &sides[algorithms.Candidate]
	switch g := candidate.Group(); {
	case r.change == nil:
	case g != nil:
		candidate.Algorithm = r.changedGroup(g)
	default:
		candidate.Limit = r.change(candidate.Limit)
	}
	for role := range sides {
		r.lower(&sides[role], role, e.at)
		if c.Sides[role].Present() {
			c.Sides[role].Algorithm, c.Sides[role].Limit = sides[role].Algorithm, sides[role].Limit
		}
	}
}

// changedGroup returns the group with a change of each member's limit, made once.
func (r *run) changedGroup(g *algorithms.Group) *algorithms.Group {
	if r.changed[g] != nil {
		return r.changed[g]
	}

	other := &algorithms.Group{Charge: g.Charge, Members: make([]algorithms.Member, len(g.Members))}
	for i, m := range g.Members {
		m.Limit = r.change(m.Limit)
		other.Members[i] = m
	}
	r.changed[g] = other
	return other
}
