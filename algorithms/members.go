package algorithms

// The methods of this file are those of a Log that has members' states. The pointer to it is one with that to a log's
// charges, because the compiler keeps a State of five words in memory instead of registers: a charge of two sides
// would take half as long again.

// memberState is the state of one member. As with parts, a member of the same name with another algorithm does not find it.
type memberState struct {
	name, algorithm string
	state           State
}

// is reports whether the state belongs to the member.
func (s *memberState) is(m *Member) bool {
	return s.name == m.Name && s.algorithm == layout(m.Algorithm, &m.Limit)
}

// state returns the member's state. The i-th one is usually the i-th member's.
func (s *Log) state(i int, m *Member) State {
	if s == nil {
		return State{}
	}
	if i < len(s.members) && s.members[i].is(m) {
		return s.members[i].state
	}

	for i := range s.members {
		if s.members[i].is(m) {
			return s.members[i].state
		}
	}
	return State{}
}

// others reports whether there are states of members that the group does not name.
func (s *Log) others(g *Group) bool {
	if s == nil {
		return false
	}

	for i := range s.members {
		if i < len(g.Members) && s.members[i].is(&g.Members[i]) {
			continue
		}
		if !g.names(&s.members[i]) {
			return true
		}
	}
	return false
}

// store keeps the states of the group's members, and of others as far as there is room, and returns the side's state.
// An unused state is as good as none.
func (s *Log) store(g *Group, next *[MaxMembers]State) State {
	if s == nil {
		s = &Log{}
	}
	if !s.storeInPlace(g, next) {
		s.rebuild(g, next)
	}

	// Used says that there is anything, and Last when the latest charge was.
	state := State{Log: s}
	for i := range s.members {
		if last := s.members[i].state.Last; state.Used == 0 || last > state.Last {
			state.Last, state.Used = last, 1
		}
	}
	return state
}

// storeInPlace stores the states where the list has exactly the group's members in their order, as it usually has.
func (s *Log) storeInPlace(g *Group, next *[MaxMembers]State) bool {
	if len(s.members) != len(g.Members) {
		return false
	}
	for i := range s.members {
		if !s.members[i].is(&g.Members[i]) || next[i].Used == 0 {
			return false
		}
	}

	for i := range s.members {
		s.members[i].state = next[i]
	}
	return true
}

// rebuild makes the list: the group's members in their order, and then the others in theirs.
func (s *Log) rebuild(g *Group, next *[MaxMembers]State) {
	list := make([]memberState, 0, len(g.Members))
	for i := range g.Members {
		if m := &g.Members[i]; next[i].Used > 0 {
			list = append(list, memberState{m.Name, layout(m.Algorithm, &m.Limit), next[i]})
		}
	}

	for _, old := range s.members {
		if len(list) < MaxMembers && !g.names(&old) {
			list = append(list, old)
		}
	}
	s.members = list
}

// names reports whether the state belongs to one of the group's members.
func (g *Group) names(s *memberState) bool {
	for i := range g.Members {
		if s.is(&g.Members[i]) {
			return true
		}
	}
	return false
}
