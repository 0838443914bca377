package algorithms

// The numbers of an entry's parts say whether the sides have had the same charges.
// The methods of this file are called when each charged part is in its slot (inPlace, chargeArranged).

// postpone answers a charge whose side is left unjudged.
func postpone(c *Charge, into *[2]Observation) {
	for r := range into {
		into[r] = Unjudged(Absent)
		if c.Sides[r].Present() {
			into[r] = Unjudged(Deferred)
		}
	}
}

// mustWait reports whether the side of a charge that follows is ahead of its predecessors, and is patient.
func (e *entry) mustWait(c *Charge, names [2]partName, at int64) bool {
	if !c.Lead.Patient || c.Lead.Unused {
		return false
	}

	r := Authoritative
	if names[r] == noPart {
		r = Candidate
	}
	if p := e.part(names[r]); p.name != noPart && !p.number.Behind(c.Lead.Number) {
		return false
	}

	// A charge that is refused would wait in vain.
	side := &c.Sides[r]
	return side.Present() && checkCharge(c.Cost, at) == nil && side.Algorithm.Validate(side.Limit) == nil
}

// number gives the judged parts the numbers that they have after the charge, writes Number and Apart of their
// observations, and reports whether the record changed. Nothing of the record is touched if it did not.
func (e *entry) number(c *Charge, names [2]partName, at int64, into *[2]Observation, changed bool) bool {
	first, second := &into[c.Enforced], &into[c.Enforced.Other()]
	switch {
	case first.Status == Judged && second.Status == Judged:
		e.together(c, names, at, into, changed)
	case first.Status == Judged && c.Follows():
		changed = e.follow(0, c, names[c.Enforced], at, first, changed)
	case first.Status == Judged:
		e.alone(0, c, c.Enforced, at, into, changed)
	case second.Status == Judged && c.Follows():
		changed = e.follow(1, c, names[c.Enforced.Other()], at, second, changed)
	case second.Status == Judged:
		e.alone(1, c, c.Enforced.Other(), at, into, changed)
	}
	return changed
}

// together numbers two sides that were judged by one charge.
func (e *entry) together(c *Charge, names [2]partName, at int64, into *[2]Observation, changed bool) {
	lead, other := &into[c.Enforced], &into[c.Enforced.Other()]
	n := e.parts[0].number
	apart := e.apart

	// Where the numbers differ, the count begins again: to go on with the smaller one would give a number twice, and a
	// side that follows with the first of them would be taken for one in step.
	inStep := n == e.parts[1].number && n.Epoch() == c.Epoch
	if !inStep {
		n = Number(0).ValidAt(c.Epoch, at)
	}

	// Two sides as if unused have had the same charges, whatever their numbers are.
	switch {
	case inStep && apart == 0:
	case lead.Unused && other.Unused:
		apart = 0
	case !inStep:
		apart = max(e.parts[0].latest(at), e.parts[1].latest(at))
	}

	lead.Number, lead.Apart = n, apart
	other.Number, other.Apart = n, apart
	if !changed {
		return
	}

	// The part of a side that denies is stored, too, even if it is empty: its number says that it has had the
	// charge. Otherwise a candidate that always denies would never be compared.
	if counted(c, c.Enforced, into) {
		n = n.Next()
	}
	e.parts[0].name, e.parts[0].number = names[c.Enforced], n
	e.parts[1].name, e.parts[1].number = names[c.Enforced.Other()], n
	e.apart = apart
}

// latest returns the instant, or the part's last one if that is later: a clock that went back must not date what the
// part lacks before what it has.
func (p *part) latest(at int64) int64 { return p.state.now(at) }

// alone numbers a side that leads without the other one, or whose other side has failed. The other part keeps its
// number, so that the next charge of both finds the difference.
func (e *entry) alone(slot int, c *Charge, r Role, at int64, into *[2]Observation, changed bool) {
	o := &into[r]
	o.Number, o.Apart = e.parts[slot].number.ValidAt(c.Epoch, at), e.apart
	if !changed {
		return
	}

	// A look or a denial has changed the state only if a clock was set back. The other part has not been moved with it,
	// and no count would show that.
	e.parts[slot].number = 0
	if counted(c, r, into) {
		e.parts[slot].number = o.Number.Next()
	}
}

// follow numbers a side that follows, and reports whether the part is to be stored although the charge may have been
// denied: it is if the leading side counted the charge, and if the part was found to lack charges, for it would
// otherwise be waited for again.
func (e *entry) follow(slot int, c *Charge, name partName, at int64, o *Observation, changed bool) bool {
	lead := &c.Lead
	unused := lead.Unused && o.Unused
	lacks := e.parts[slot].number != lead.Number && !unused

	apart := e.apart
	switch {
	case unused:
		apart = 0
	case lacks:
		apart = e.parts[slot].latest(at)
	}

	o.Number, o.Apart = lead.Number, apart
	if !lacks && !lead.Counted && !changed {
		return false
	}

	n := lead.Number
	if lead.Counted {
		n = n.Next()
	}
	e.parts[slot].name, e.parts[slot].number = name, n
	e.apart = apart
	return true
}

// forgetNumbers takes the numbers from a record that a charge without an epoch has changed. Numbers that stayed would
// not count that charge.
func (e *entry) forgetNumbers() {
	e.parts[0].number, e.parts[1].number, e.apart = 0, 0, 0
}
