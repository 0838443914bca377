package algorithms

// Members are the states of a group's members: those that were charged last come first.
type Members struct{ list []memberState }

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
func (ms *Members) state(i int, m *Member) State {
	if ms == nil {
		return State{}
	}
	if i < len(ms.list) && ms.list[i].is(m) {
		return ms.list[i].state
	}

	for i := range ms.list {
		if ms.list[i].is(m) {
			return ms.list[i].state
		}
	}
	return State{}
}

// others reports whether there are states of members that the group does not name.
func (ms *Members) others(g *Group) bool {
	if ms == nil {
		return false
	}

	for i := range ms.list {
		if i < len(g.Members) && ms.list[i].is(&g.Members[i]) {
			continue
		}
		if !g.names(&ms.list[i]) {
			return true
		}
	}
	return false
}

// store keeps the states of the group's members, and of others as far as there is room, and returns the side's state.
// An unused state is as good as none.
func (ms *Members) store(g *Group, next *[MaxMembers]State) State {
	if ms == nil {
		ms = &Members{}
	}
	if !ms.storeInPlace(g, next) {
		ms.rebuild(g, next)
	}

	s := State{Members: ms}
	for i := range ms.list {
		if last := ms.list[i].state.Last; s.Used == 0 || last > s.Last {
			s.Last, s.Used = last, 1
		}
	}
	return s
}

// storeInPlace stores the states where the list has exactly the group's members in their order, as it usually has.
func (ms *Members) storeInPlace(g *Group, next *[MaxMembers]State) bool {
	if len(ms.list) != len(g.Members) {
		return false
	}
	for i := range ms.list {
		if !ms.list[i].is(&g.Members[i]) || next[i].Used == 0 {
			return false
		}
	}

	for i := range ms.list {
		ms.list[i].state = next[i]
	}
	return true
}

// rebuild makes the list: the group's members in their order, and then the others in theirs.
func (ms *Members) rebuild(g *Group, next *[MaxMembers]State) {
	list := make([]memberState, 0, len(g.Members))
	for i := range g.Members {
		if m := &g.Members[i]; next[i].Used > 0 {
			list = append(list, memberState{m.Name, layout(m.Algorithm, &m.Limit), next[i]})
		}
	}

	for _, old := range ms.list {
		if len(list) < MaxMembers && !g.names(&old) {
			list = append(list, old)
		}
	}
	ms.list = list
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
