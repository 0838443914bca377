package algorithms

import (
	"errors"
	"time"
)

type recordKey struct{ policy, key string }

// entry is one key's record. Its parts go by name, not by role, so a side that changes
// roles keeps its state.
//
// A record has room for two parts. When it changes, the charged parts come first, the
// enforced one before the other, and a part that was not charged keeps the room that is
// left: a side that is left out of some charges still has its state when it returns.
// The Redis pair keeps records by the same rule, and limitertest.Model is their
// specification.
type entry struct {
	key            recordKey
	index          int // in shard.entries
	parts          [2]part
	apart          int64 // see Observation.Apart
	idleAt         int64 // instant from which the record is as if it had never been used
	enforcedIdleAt int64 // the same of the enforced side alone
	freeAt         int64 // instant from which the enforced side admits a cost of 1
	spent          int64 // units that the enforced side is short of its capacity
}

// part is one side's share of a record.
type part struct {
	name   partName
	state  State
	number Number
}

// judge steps both sides, the enforced one first, and reports whether the
// record changed. An error of one side leaves the other's part as it is.
func (e *entry) judge(c *Charge, names [2]partName, at int64, into *[2]Observation) bool {
	first, second := c.Enforced, c.Enforced.Other()
	if c.Follows() && e.mustWait(c, names, at) {
		postpone(c, into)
		return false
	}

	old := e.parts
	inPlace := e.arrange(names[first], names[second])

	when := time.UnixMicro(at)
	changed := e.step(0, c, first, names[first], at, when, &into[first])
	changed = e.step(1, c, second, names[second], at, when, &into[second]) || changed
	if c.Epoch != 0 {
		changed = e.number(c, names, at, into, changed)
	}

	// A charge that changed nothing must leave no trace, not even in the order of the
	// parts: the order decides which part a third side displaces.
	switch {
	case changed:
		if !inPlace || into[0].Status == Failed || into[1].Status == Failed {
			e.compact(old, e.charged(c, names, into))
		}
		if c.Epoch == 0 {
			e.forgetNumbers()
		}
		e.note(c, names, at, into)
	case !inPlace:
		e.parts = old
	}
	return changed
}

// arrange puts the charged parts into their slots, with an empty part for a side that
// has none, and reports whether the record had them there already, as it usually has.
func (e *entry) arrange(first, second partName) (inPlace bool) {
	if e.parts[0].name == first && first != noPart && (second == noPart || e.parts[1].name == second) {
		return true
	}
	e.parts = [2]part{e.part(first), e.part(second)}
	return false
}

// charged returns the names of the parts that the charge was for. A side whose limit is refused is not charged: its part
// keeps its place among the others, as in a store that was not asked for it.
func (e *entry) charged(c *Charge, names [2]partName, into *[2]Observation) [2]partName {
	for slot, r := range [2]Role{c.Enforced, c.Enforced.Other()} {
		if into[r].Status == Failed && errors.Is(into[r].Err, ErrLimit) {
			names[r], e.parts[slot] = noPart, part{}
		}
	}
	return names
}

// step judges one side on its part of the record and reports whether that changed.
func (e *entry) step(slot int, c *Charge, r Role, name partName, at int64, when time.Time, o *Observation) bool {
	side := &c.Sides[r]
	if name == noPart {
		*o = Unjudged(Absent)
		return false
	}

	o.Status, o.Reason = Judged, 0
	o.At, o.Took, o.Degraded = when, 0, false
	o.Unused, o.Number, o.Apart = false, 0, 0
	o.Member, o.Partial = "", false
	if g := side.Group(); g != nil {
		return e.stepGroup(slot, g, c, name, at, o)
	}

	var next State
	if side.Limit.Phase == PhaseHash {
		next, o.Decision, o.Err = stepFor(side.Algorithm, e.parts[slot].state, &side.Limit, hashOf(c.Key), c.Cost, at)
	} else {
		next, o.Decision, o.Err = side.Algorithm.Step(e.parts[slot].state, &side.Limit, c.Cost, at)
	}
	if o.Err != nil {
		o.Status = Failed
		return false
	}

	o.Unused = side.WasUnused(c.Cost, &o.Decision)
	// A denial that does not count, and a peek, change a state only where the clock was set back.
	back := next.Last < e.parts[slot].state.Last
	if !side.Counts(c.Cost, o) && !back {
		return false
	}

	e.parts[slot].name = name
	e.parts[slot].state = next
	return true
}

// stepGroup is step for a side that is a group.
func (e *entry) stepGroup(slot int, g *Group, c *Charge, name partName, at int64, o *Observation) bool {
	var a groupAnswer
	if o.Err = g.judge(&a, e.parts[slot].state, g.hashOf(c.Key), c.Cost, at); o.Err != nil {
		o.Status = Failed
		return false
	}

	o.Decision, o.Unused, o.Member, o.Partial = a.decision, a.unused, a.member, a.partial
	if a.changed {
		e.parts[slot].name = name
		e.parts[slot].state = a.next
	}
	return a.changed
}

// part returns the part of that name; one without a name if there is none.
func (e *entry) part(name partName) part {
	for i := range e.parts {
		if e.parts[i].name == name && name != noPart {
			return e.parts[i]
		}
	}
	return part{}
}

// compact closes the gaps that arrange left, and keeps those old parts that were not
// charged as far as there is room.
func (e *entry) compact(old [2]part, names [2]partName) {
	charged := e.parts
	e.parts = [2]part{}
	n := 0
	keep := func(p part) {
		if p.name != noPart && n < len(e.parts) {
			e.parts[n] = p
			n++
		}
	}

	keep(charged[0])
	keep(charged[1])
	for _, p := range old {
		if p.name != names[0] && p.name != names[1] {
			keep(p)
		}
	}
}

// note works out when the record is idle, and when its enforced side is free: the
// enforced side alone decides which key is displaced when the store is full. Otherwise a
// strict candidate would fill the store with keys that the authoritative could do
// without. Where a side was not judged now, the instants noted earlier stand.
func (e *entry) note(c *Charge, names [2]partName, at int64, into *[2]Observation) {
	idle := at
	judged := 0
	for r := range into {
		if into[r].Status == Judged && !e.silent(&c.Sides[r], names[r]) {
			judged++
		}
		if into[r].Status == Judged {
			idle = max(idle, at+micros(into[r].Decision.ResetAfter))
		}
	}

	if judged < len(into) {
		idle = max(idle, e.idleAt)
	}
	if c.Epoch != 0 {
		idle = max(idle, at+micros(c.Keep))
	}
	e.idleAt = idle

	r := c.Enforced
	if into[r].Status == Absent {
		r = r.Other()
	}
	if into[r].Status != Judged {
		return
	}

	d := &into[r].Decision
	idleAt, freeAt := at+micros(d.ResetAfter), at
	e.spent = d.Limit - d.Remaining
	if d.Remaining == 0 {
		freeAt += micros(e.retryOfOne(&c.Sides[r], names[r], c.Key, at))
	}

	if e.silent(&c.Sides[r], names[r]) {
		idleAt, freeAt = max(idleAt, e.enforcedIdleAt), max(freeAt, e.freeAt)
	}
	e.enforcedIdleAt, e.freeAt = idleAt, freeAt
}

// silent reports whether the part holds states of members that the side's group does not name in this charge: the decision
// says nothing of them, so the instants noted earlier stand.
func (e *entry) silent(side *Side, name partName) bool {
	g := side.Group()
	return g != nil && e.part(name).state.Log.others(g)
}

// retryOfOne returns the wait for a cost of 1 on a side that has nothing left. The charge
// itself may have been larger or admitted, so its RetryAfter is not the answer. The step
// is denied and, where denials do not count, leaves the state alone.
func (e *entry) retryOfOne(side *Side, name partName, key string, at int64) time.Duration {
	if g := side.Group(); g != nil {
		return g.wait(e.part(name).state, g.hashOf(key), 1, at)
	}

	d, _ := probe(side.Algorithm, e.part(name).state, &side.Limit, side.Limit.hashOf(key), 1, at)
	return d.RetryAfter
}

// lessIndebted reports whether e is nearer to idle than other; of two that are
// as near, whether it has spent less.
func (e *entry) lessIndebted(other *entry) bool {
	if e.enforcedIdleAt != other.enforcedIdleAt {
		return e.enforcedIdleAt < other.enforcedIdleAt
	}
	return e.spent < other.spent
}
