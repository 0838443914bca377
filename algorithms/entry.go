package algorithms

import "time"

type recordKey struct{ policy, key string }

// entry is one key's record. Parts go by name, not by role, so a side that
// changes roles keeps its state. A record that changes puts the charged parts
// first, the enforced one before the other, and keeps others as far as two parts
// leave room: a side left out of some charges is there when it comes back.
type entry struct {
	key    recordKey
	index  int // in shard.entries
	parts  [2]part
	idleAt int64 // instant from which the record is as if it had never been used
	freeAt int64 // instant from which every side admits a cost of 1
	spent  int64 // units short of capacity, on the side that is shorter
}

type part struct {
	name  partName
	state State
}

// judge steps both sides, the enforced one first, and reports whether the
// record changed. An error of one side leaves the other's part as it is.
func (e *entry) judge(c *Charge, names [2]partName, at int64, into *[2]Observation) bool {
	charged := [2]part{e.part(names[0]), e.part(names[1])}
	changed := false
	for _, r := range [2]Role{c.Enforced, c.Enforced.Other()} {
		if !c.Sides[r].Present() {
			into[r] = Observation{Err: ErrAbsent}
			continue
		}
		next, d, err := c.Sides[r].Algorithm.Step(charged[r].state, c.Sides[r].Limit, c.Cost, at)
		into[r] = Observation{Decision: d, Err: err, At: time.UnixMicro(at)}
		if err == nil && d.Allowed && c.Cost > 0 {
			charged[r] = part{names[r], next}
			changed = true
		}
	}
	if changed {
		e.store(charged[c.Enforced], charged[c.Enforced.Other()], names)
		e.note(c, charged, at, into)
	}
	return changed
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

func (e *entry) store(first, second part, names [2]partName) {
	old := e.parts
	e.parts = [2]part{}
	n := 0
	keep := func(p part) {
		if p.name != noPart && n < len(e.parts) {
			e.parts[n] = p
			n++
		}
	}
	keep(first)
	keep(second)
	for _, p := range old {
		if p.name != names[0] && p.name != names[1] {
			keep(p)
		}
	}
}

// note works out when the record is idle and when it is free. The instants of
// before stand where a part was not judged now.
func (e *entry) note(c *Charge, charged [2]part, at int64, into *[2]Observation) {
	idle, free, judged := at, at, 0
	e.spent = 0
	for r := range into {
		if into[r].Err != nil {
			continue
		}
		judged++
		d := &into[r].Decision
		e.spent = max(e.spent, d.Limit-d.Remaining)
		idle = max(idle, at+micros(d.ResetAfter))
		if d.Remaining == 0 {
			_, d, _ := c.Sides[r].Algorithm.Step(charged[r].state, c.Sides[r].Limit, 1, at)
			free = max(free, at+micros(d.RetryAfter))
		}
	}
	if judged < len(into) {
		idle, free = max(idle, e.idleAt), max(free, e.freeAt)
	}
	e.idleAt, e.freeAt = idle, free
}

// lessIndebted reports whether e is nearer to idle than other; of two that are
// as near, whether it has spent less.
func (e *entry) lessIndebted(other *entry) bool {
	if e.idleAt != other.idleAt {
		return e.idleAt < other.idleAt
	}
	return e.spent < other.spent
}
