package algorithms

import (
	"cmp"
	"slices"
)

// account is what an entry of a synchronized Memory has to tell the fleet.
type account struct {
	index int // in shard.changed, behind its end if it is not there
	sides [2]tab
}

// tab is one part's share of an account.
type tab struct {
	name  partName
	ready *prepared
	side  Side  // as last charged
	shape Shape // of its algorithm
	base  int64 // the exchange that this process has last joined the part in; 0: none
	spent Spending
	away  bool // collected and not yet joined
}

// Change is what one side of a key has admitted here since it was last exchanged, and what it has come to.
type Change struct {
	Policy, Key string
	Side        Side
	// State is the side's state with Spent in it. It is the fleet's as well if no other process has written since Base.
	State State
	Spent Spending
	// Base is the number of the exchange in which this process has last written the side's record; 0 if in none.
	Base int64

	name partName
}

// Joint is the fleet's record of a side after an exchange. Ours reports that no other process has written it, so that it
// is the Change's own State.
type Joint struct {
	Ours  bool
	State State
}

// account returns the part's tab, which is new at its first check. Requires the shard's mu.
func (e *entry) tab(name partName) *tab {
	if e.account == nil {
		e.account = &account{index: -1}
	}

	free := &e.account.sides[0]
	for i := range e.account.sides {
		switch t := &e.account.sides[i]; {
		case t.name == name:
			return t
		case t.name != e.parts[0].name && t.name != e.parts[1].name:
			free = t // of a side that the record has no room for any more
		}
	}
	*free = tab{name: name}
	return free
}

// spend notes what a check has spent, for the next exchange. Requires mu.
func (s *shard) spend(e *entry, c *Check, sides *chargedSides, into *[2]Observation) {
	changed := false
	for r := range into {
		if into[r].Status != Judged || !into[r].Counts(c.Cost) {
			continue
		}

		// What cannot be exchanged stays in this process.
		if sides.ready[r] == nil && !Synchronizable(c.Sides[r].Algorithm) {
			continue
		}
		for slot := range e.parts {
			if p := &e.parts[slot]; p.name == sides.names[r] {
				changed = true
				e.tab(p.name).spend(&c.Sides[r], sides.ready[r], &p.state, c.Cost)
			}
		}
	}

	if changed && e.account.index < 0 {
		e.account.index = len(s.changed)
		s.changed = append(s.changed, e)
	}
}

// spend counts a check of a side. A side that is prepared is copied only where it is another one than before.
func (t *tab) spend(side *Side, ready *prepared, after *State, cost int64) {
	if ready == nil || ready != t.ready {
		t.ready, t.side, t.shape = ready, *side, TraitsOf(side.Algorithm).Shape
	}

	if ready != nil {
		t.spent.add(t.shape, &ready.limit, &ready.bucket, after, cost)
		return
	}
	b := bucket{}
	if t.shape == Bucket {
		b = newBucket(&side.Limit)
	}
	t.spent.add(t.shape, &side.Limit, &b, after, cost)
}

// settled takes an entry off the list of changed ones. Requires mu.
func (s *shard) settled(e *entry) {
	if e.account == nil || e.account.index < 0 {
		return
	}

	last := len(s.changed) - 1
	moved := s.changed[last]
	s.changed[e.account.index] = moved
	moved.account.index = e.account.index
	s.changed[last] = nil
	s.changed = s.changed[:last]
	e.account.index = -1
}

// unsent reports whether the entry has something to tell the fleet.
func (e *entry) unsent() bool { return e.account != nil && e.account.index >= 0 }

// Changed returns what keys have admitted since they were last returned, most sides at most, and the number of keys that
// wait for the next call. Of 2*most keys it takes those first that have spent most of their capacity. The caller
// exchanges it and then calls Join: until then the changes are in its hands.
func (m *Memory) Changed(most int) (changes []Change, waiting int) {
	type place struct {
		shard *shard
		entry *entry
		heat  float64
	}
	var found []place
	for i := range m.shards {
		// Where there is too much, another shard is the first one at each call.
		s := &m.shards[(i+int(m.turn))%len(m.shards)]
		s.mu.Lock()
		waiting += len(s.changed)
		for _, e := range s.changed[:min(len(s.changed), max(0, 2*most-len(found)))] {
			found = append(found, place{s, e, e.account.heat()})
		}
		s.mu.Unlock()
	}
	m.turn++

	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(b.heat, a.heat) })
	for _, p := range found {
		if len(changes)+len(p.entry.parts) > most {
			break
		}
		p.shard.mu.Lock()
		if p.entry.unsent() { // it may have been displaced meanwhile
			changes = p.entry.collect(changes)
			p.shard.settled(p.entry)
			waiting--
		}
		p.shard.mu.Unlock()
	}
	return changes, waiting
}

// heat is the greater share of its capacity that a side has spent.
func (a *account) heat() (heat float64) {
	for i := range a.sides {
		t := &a.sides[i]
		heat = max(heat, float64(t.spent.Units)/float64(max(1, t.side.Limit.Capacity())))
	}
	return heat
}

// collect appends the entry's changes, and begins to count again. Requires the shard's mu.
func (e *entry) collect(changes []Change) []Change {
	for i := range e.account.sides {
		t := &e.account.sides[i]
		if t.spent.Units == 0 && t.spent.Before == 0 {
			continue
		}

		// A side whose part the record has dropped has no state: the zero one would clear the fleet's.
		p := e.part(t.name)
		if p.name == noPart {
			*t = tab{}
			continue
		}

		changes = append(changes, Change{
			Policy: e.key.policy, Key: e.key.key, Side: t.side, State: p.state,
			Spent: t.spent, Base: t.base, name: t.name,
		})
		t.spent, t.away = Spending{}, true
	}
	return changes
}

// Join takes over what an exchange of that number, above 0, has come to: joint[i] belongs to changes[i]. What was admitted
// since Changed is charged to the fleet's record once more, here.
func (m *Memory) Join(changes []Change, joint []Joint, number int64) {
	for i := 0; i < len(changes); {
		key := recordKey{changes[i].Policy, changes[i].Key}
		n := 1 // changes of the key, which lie together
		for i+n < len(changes) && key == (recordKey{changes[i+n].Policy, changes[i+n].Key}) {
			n++
		}

		m.joinKey(key, changes[i:i+n], joint[i:i+n], number)
		i += n
	}
}

// joinKey takes over the sides of one key, in one step: no check sees one side with what others have admitted, and the other
// one without.
func (m *Memory) joinKey(key recordKey, changes []Change, joint []Joint, number int64) {
	s, hash := m.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()

	if e := s.find(hash, key); e != nil && e.account != nil {
		for i := range changes {
			e.join(&changes[i], &joint[i], number)
		}
	}
}

// join takes over one side. Requires the shard's mu.
func (e *entry) join(c *Change, joint *Joint, number int64) {
	for i := range e.account.sides {
		t := &e.account.sides[i]
		if t.name != c.name {
			continue
		}

		// The key may have been displaced during the flight, and have begun again. What the fleet then holds is not in its state.
		state, known := joint.State, joint.Ours && t.away
		if joint.Ours {
			state = c.State
		}
		t.base, t.away = number, false
		for slot := range e.parts {
			if p := &e.parts[slot]; p.name == t.name && !known {
				p.state = debit(t.shape, state, &t.side.Limit, &t.spent)
				if t.shape == AnchoredWindow && t.spent.Units > 0 {
					t.spent.First = p.state.Aux
				}
				e.noteJoined(slot, &t.side, p.state.Last)
			}
		}
	}
}

// noteJoined works out again when the record is idle, and when its first side is free, by the instant of its last check.
func (e *entry) noteJoined(slot int, side *Side, at int64) {
	_, d, err := side.Algorithm.Step(e.parts[slot].state, &side.Limit, 0, at)
	if err != nil {
		return
	}

	e.idleAt = max(e.idleAt, at+micros(d.ResetAfter))
	if slot != 0 {
		return
	}
	e.enforcedIdleAt, e.spent = at+micros(d.ResetAfter), d.Capacity-d.Remaining
	if d.Remaining == 0 {
		_, one, _ := side.Algorithm.Step(e.parts[slot].state, &side.Limit, 1, at)
		e.freeAt = max(e.freeAt, at+micros(one.RetryAfter))
	}
}

// Debit returns the fleet's record of a side after an exchange that finds it in a state that another process has written:
// what the script of package lua does, for tests and simulations of it.
func (c *Change) Debit(s State) State {
	return debit(TraitsOf(c.Side.Algorithm).Shape, s, &c.Side.Limit, &c.Spent)
}

// Lifetime returns for how many microseconds the record of a side is needed after an exchange: until it is as if
// unused, and a window longer, because a bucket may lie so far ahead.
func (c *Change) Lifetime() int64 {
	return Forgotten(TraitsOf(c.Side.Algorithm).Shape, c.Side.Limit, c.Spent.Last) - c.Spent.Last + c.Side.Limit.micros()
}
