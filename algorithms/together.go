package algorithms

import (
	"hash/maphash"
	"math"
	"slices"
)

// place is where a check of a list is judged.
type place struct {
	shard  int
	key    recordKey
	hash   uint64
	known  *entry // the key's record; nil: it is new, or has no room
	shared *entry // the overflow bucket of a key that has no room
	victim *entry // has to go for a new key
	sides  chargedSides
	err    error // of the sides: nothing of the check is judged
	denies bool  // the enforced side does
}

// evaluateTogether judges a list: it looks at all enforced sides, and then judges each check knowing whether another one denies.
func (m *Memory) evaluateTogether(checks []Check, into [][2]Observation) {
	if err := CheckTogether(checks); err != nil {
		for i := range checks {
			checks[i].fail(err, &into[i])
		}
		return
	}

	places := make([]place, len(checks))
	for i := range places {
		key := recordKey{checks[i].Policy, checks[i].Key}
		hash := maphash.Comparable(m.seed, key)
		places[i] = place{key: key, hash: hash, shard: int(hash % uint64(len(m.shards)))}
	}
	defer m.lockAll(places)()

	at := m.instant(checks[0].At)
	m.find(checks, places, at)
	denying := 0
	for i := range places {
		if p := &places[i]; p.denied(&checks[i], at) {
			p.denies = true
			denying++
		}
	}

	for i := range places {
		p, sh, c := &places[i], &m.shards[places[i].shard], checks[i]
		c.blocked = denying > 1 || denying == 1 && !p.denies
		switch {
		case p.err != nil:
			c.fail(p.err, &into[i])
		case p.known != nil:
			if p.known.judge(&c, &p.sides, at, &into[i]) && m.synchronized {
				sh.spend(p.known, &c, &p.sides, &into[i])
			}
		case p.shared != nil:
			m.judgeOverflow(p.shared, &c, &p.sides, at, &into[i])
		default:
			m.judgeNew(sh, p.hash, p.key, p.victim, &c, &p.sides, at, &into[i])
		}
	}
}

// lockAll locks the shards of a list, each once and all callers in one order, and returns what unlocks them.
func (m *Memory) lockAll(places []place) (unlock func()) {
	var few [8]int
	order := few[:0]
	for i := range places {
		order = append(order, places[i].shard)
	}
	slices.Sort(order)
	order = slices.Compact(order)

	for _, i := range order {
		m.shards[i].mu.Lock()
	}
	return func() {
		for _, i := range order {
			m.shards[i].mu.Unlock()
		}
	}
}

// find looks up the records of a list, and makes room for those that are new. To make room for one of them displaces neither the
// record of another one nor the same victim twice: what stands in the list is held until all have a place.
func (m *Memory) find(checks []Check, places []place, at int64) {
	for i := range places {
		p := &places[i]
		p.known = m.shards[p.shard].find(p.hash, p.key)
		p.sides, p.err = m.sidesOf(p.known, &checks[i], at)
	}
	if m.maxKeys < 0 {
		return
	}

	type holding struct {
		entry          *entry
		idleAt, freeAt int64
	}
	var held []holding
	hold := func(e *entry) {
		if e != nil {
			held = append(held, holding{e, e.idleAt, e.freeAt})
			e.idleAt, e.freeAt = math.MaxInt64, math.MaxInt64
		}
	}
	for i := range places {
		hold(places[i].known)
	}
	for i := range places {
		p := &places[i]
		if p.known != nil || p.err != nil {
			continue
		}

		sh := &m.shards[p.shard]
		var room bool
		if p.victim, room = m.makeRoom(sh, at); !room {
			p.shared = sh.overflowEntry(p.key.policy, m.overflowSlot(p.hash))
		}
		hold(p.victim)
	}
	for _, h := range held {
		h.entry.idleAt, h.entry.freeAt = h.idleAt, h.freeAt
	}
}

// denied reports whether the check's enforced side denies its cost. It looks, and changes nothing.
func (p *place) denied(c *Check, at int64) bool {
	side := &c.Sides[c.Enforced]
	if p.err != nil || c.Cost <= 0 || !side.Present() {
		return false
	}

	var state State
	for _, e := range [2]*entry{p.known, p.shared} {
		if e != nil {
			state = e.part(p.sides.names[c.Enforced]).state
		}
	}
	_, d, err := side.Algorithm.Step(state, &side.Limit, 0, at)
	return err == nil && c.Cost > d.Remaining
}
