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
// left: a side that is left out of some checks still has its state when it returns.
// The Redis pair keeps records by the same rule, and limitertest.Model is their
// specification.
type entry struct {
	key            recordKey
	hash           uint64
	next           *entry // of another key of the same hash, which hardly occurs
	index          int    // in shard.entries
	parts          [2]part
	idleAt         int64    // instant from which the record is as if it had never been used
	enforcedIdleAt int64    // the same of the enforced side alone
	freeAt         int64    // instant from which the enforced side admits a cost of 1
	spent          int64    // units that the enforced side is short of its capacity
	account        *account // nil unless the Memory is synchronized
}

// part is one side's share of a record.
type part struct {
	name  partName
	state State
	ready *prepared // the side that it was last charged by, if that is one
}

// chargedSides are the sides of a check as a pair knows them, by role: the names of their parts, and the sides themselves
// where they are prepared, and cost and instant have been checked.
type chargedSides struct {
	names [2]partName
	ready [2]*prepared
}

// recognize finds the sides of a check in the record, and reports whether they are all there. They usually are: most
// policies give a key the same limit at each request.
func (e *entry) recognize(c *Check, at int64, sides *chargedSides) bool {
	first, second := &c.Sides[c.Enforced], &c.Sides[c.Enforced.Other()]
	p := &e.parts[0]
	if p.ready == nil || p.ready.name != p.name || !p.ready.is(first) {
		return false
	}
	sides.names[c.Enforced], sides.ready[c.Enforced] = p.name, p.ready

	if second.Algorithm != nil {
		p := &e.parts[1]
		if p.ready == nil || p.ready.name != p.name || !p.ready.is(second) {
			return false
		}
		sides.names[c.Enforced.Other()], sides.ready[c.Enforced.Other()] = p.name, p.ready
	}
	return sides.names[0].id != sides.names[1].id && validCheck(c.Cost, at) == nil
}

// judge steps both sides, the enforced one first, and reports whether the
// record changed. An error of one side leaves the other's part as it is.
func (e *entry) judge(c *Check, sides *chargedSides, at int64, into *[2]Observation) bool {
	var changed bool
	if e.inPlace(sides.names[c.Enforced], sides.names[c.Enforced.Other()]) {
		changed = e.step(c, sides, &at, into)
		if changed && (into[0].Status == Failed || into[1].Status == Failed) {
			old := e.parts
			e.settle(&old, sides.names, c, into)
		}
	} else {
		changed = e.stepArranged(c, sides, &at, into)
	}

	if changed {
		e.note(c, sides, at, into)
	}
	if c.Receipt != nil {
		e.fill(c.Receipt, c, &sides.names, into)
	}
	return changed
}

// stepArranged is step for a record that does not have the parts in their slots: it puts them there, with an empty
// part for a side that has none.
func (e *entry) stepArranged(c *Check, sides *chargedSides, at *int64, into *[2]Observation) bool {
	old := e.parts
	e.arrange(c, &sides.names)

	// A check that changed nothing must leave no trace, not even in the order of the
	// parts: the order decides which part a third side displaces.
	if !e.step(c, sides, at, into) {
		e.parts = old
		return false
	}
	e.settle(&old, sides.names, c, into)
	return true
}

// step judges both sides, whose parts are in their slots, and reports whether the record changed. A deferred check moves
// the instant.
func (e *entry) step(c *Check, sides *chargedSides, at *int64, into *[2]Observation) bool {
	if c.Deferred {
		*at = e.deferredTo(&sides.names, *at)
	}

	first, second := c.Enforced, c.Enforced.Other()
	when := time.UnixMicro(*at)
	changed := e.stepSide(0, c, first, sides, *at, when, &into[first])
	return e.stepSide(1, c, second, sides, *at, when, &into[second]) || changed
}

// inPlace reports whether the record has the charged parts in their slots, as it usually has.
func (e *entry) inPlace(first, second partName) bool {
	return e.parts[0].name == first && first != noPart && (second == noPart || e.parts[1].name == second)
}

// arrange puts the charged parts into their slots, with an empty part for a side that has none. A side that is not
// enforced begins as a copy of the enforced one, if both are of one algorithm and window: it then has the same phase. The enforced
// one never does: nothing that it remembers may come from the other.
func (e *entry) arrange(c *Check, names *[2]partName) {
	first, second := c.Enforced, c.Enforced.Other()
	e.parts = [2]part{e.part(names[first]), e.part(names[second])}
	if e.parts[0].name == noPart || e.parts[1].name != noPart || names[second] == noPart ||
		names[first].algorithm != names[second].algorithm || c.Sides[0].Limit.Window != c.Sides[1].Limit.Window {
		return
	}
	if log := e.parts[0].state.Log; log == nil || len(log.entries) <= maxCopied {
		e.parts[1].state = e.parts[0].state.copied()
	}
}

// deferredTo returns the instant at which a deferred check is judged: that of the last check of its sides, if it is later.
func (e *entry) deferredTo(names *[2]partName, at int64) int64 {
	for i := range e.parts {
		if p := &e.parts[i]; p.name != noPart && (p.name == names[0] || p.name == names[1]) {
			at = p.state.now(at)
		}
	}
	return at
}

// settle names the parts of the sides that were judged, also of one that denies: it has begun. A side that has failed keeps
// its part, if it has one. One whose limit is refused is not charged: its part keeps its place among those that were not,
// which stay as far as there is room.
func (e *entry) settle(old *[2]part, names [2]partName, c *Check, into *[2]Observation) {
	charged := e.parts
	e.parts = [2]part{}
	n := 0
	keep := func(p part) {
		if p.name != noPart && n < len(e.parts) {
			e.parts[n] = p
			n++
		}
	}

	for slot, r := range [2]Role{c.Enforced, c.Enforced.Other()} {
		switch {
		case into[r].Status == Judged:
			charged[slot].name = names[r]
		case limitRefused(&into[r]):
			names[r] = noPart
			continue
		}
		keep(charged[slot])
	}
	for _, p := range old {
		if p.name != names[0] && p.name != names[1] {
			keep(p)
		}
	}
}

// fill writes the receipt of a check.
func (e *entry) fill(r *Receipt, c *Check, names *[2]partName, into *[2]Observation) {
	*r = Receipt{Policy: c.Policy, Key: c.Key, Cost: c.Cost}
	for role := range into {
		if o := &into[role]; o.Status == Judged && o.Counts(c.Cost) {
			s := e.part(names[role]).state
			r.Sides[role] = Charged{Side: c.Sides[role], At: s.Last, Opened: s.Aux}
		}
	}
}

// limitRefused reports whether a side has failed because its limit is refused.
func limitRefused(o *Observation) bool { return o.Status == Failed && errors.Is(o.Err, ErrLimit) }

// stepSide judges one side on its part of the record and reports whether that changed.
func (e *entry) stepSide(slot int, c *Check, r Role, sides *chargedSides, at int64, when time.Time, o *Observation) bool {
	name := sides.names[r]
	if name == noPart {
		*o = Observation{}
		return false
	}

	o.Status, o.Reason = Judged, 0
	o.At, o.Took, o.Degraded, o.Lost, o.Blocked = when, 0, false, false, c.blocked
	if c.blocked {
		return e.stepBlocked(slot, c, r, at, o)
	}
	if ready := sides.ready[r]; ready != nil {
		return e.stepPrepared(slot, ready, c.Cost, at, o)
	}

	side := &c.Sides[r]
	var next State
	if next, o.Decision, o.Err = side.Algorithm.Step(e.parts[slot].state, &side.Limit, c.Cost, at); o.Err != nil {
		o.Status = Failed
		return false
	}

	// A denial and a peek change a state only where the clock was set back.
	back := next.Last < e.parts[slot].state.Last
	if !o.Counts(c.Cost) && !back {
		return false
	}

	e.parts[slot].state = next
	return true
}

// stepPrepared is stepSide for a side that is prepared.
func (e *entry) stepPrepared(slot int, ready *prepared, cost, at int64, o *Observation) bool {
	p := &e.parts[slot]
	last := p.state.Last
	ready.step(&p.state, &o.Decision, cost, at)
	p.ready = ready
	o.Err = nil

	// A look and a denial change nothing, unless a clock that was set back has moved the instant.
	return cost > 0 && o.Decision.Allowed || p.state.Last < last
}

// stepBlocked is stepSide for a side that is not charged. One that admits answers as to a look, and one that denies as it
// always does.
func (e *entry) stepBlocked(slot int, c *Check, r Role, at int64, o *Observation) bool {
	side, state := &c.Sides[r], &e.parts[slot].state
	last := state.Last
	next, d, err := side.Algorithm.Step(*state, &side.Limit, min(c.Cost, 0), at)
	if err == nil && c.Cost > d.Remaining {
		next, d, err = side.Algorithm.Step(next, &side.Limit, c.Cost, at)
	}
	if o.Decision, o.Err = d, err; err != nil {
		o.Status = Failed
		return false
	}

	if next.Last >= last {
		return false
	}
	*state = next
	return true
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

// note works out when the record is idle, and when its enforced side is free: the
// enforced side alone decides which key is displaced when the store is full. Otherwise a
// strict candidate would fill the store with keys that the authoritative could do
// without. Where a side was not judged now, the instants noted earlier stand.
func (e *entry) note(c *Check, sides *chargedSides, at int64, into *[2]Observation) {
	idle, whole := at, true
	for r := range into {
		if into[r].Status != Judged {
			whole = false
			continue
		}
		idle = max(idle, at+micros(into[r].Decision.ResetAfter)+micros(c.Linger))
	}

	if !whole {
		idle = max(idle, e.idleAt)
	}
	e.idleAt = idle

	// Without an enforced side here, the other one stands for the key.
	r := c.Enforced
	if into[r].Status == NotAsked {
		r = r.Other()
	}
	if into[r].Status != Judged {
		return
	}

	d := &into[r].Decision
	idleAt, freeAt := at+micros(d.ResetAfter), at
	e.spent = d.Capacity - d.Remaining
	if d.Remaining == 0 {
		freeAt += micros(e.retryOfOne(&c.Sides[r], sides.names[r], at))
	}
	e.enforcedIdleAt, e.freeAt = idleAt, freeAt
}

// retryOfOne returns the wait for a cost of 1 on a side that has nothing left. The check
// itself may have been larger or admitted, so its RetryAfter is not the answer. The step
// is denied and leaves the state alone.
func (e *entry) retryOfOne(side *Side, name partName, at int64) time.Duration {
	_, d, _ := side.Algorithm.Step(e.part(name).state, &side.Limit, 1, at)
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

// settleSide settles one side on its part of the record, and reports whether that changed and whether the charge counts.
func (e *entry) settleSide(name partName, c *Charged, charged, final, at int64) (changed, counts bool) {
	slot := -1
	for i := range e.parts {
		if e.parts[i].name == name || slot < 0 && e.parts[i].name == noPart {
			slot = i
		}
	}
	if slot < 0 {
		return false, false
	}

	p := &e.parts[slot]
	before := p.state
	if counts = p.state.settle(c, charged, min(final, maxExact-1), at); !counts || p.state == before && before.Log == nil {
		return false, counts
	}
	if p.name == noPart {
		p.name = name
	}
	e.noteJoined(slot, &c.Side, max(at, p.state.Last))
	return true, true
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
