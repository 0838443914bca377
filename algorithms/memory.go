package algorithms

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// MemoryConfig configures a Memory. The zero value is ready to use.
type MemoryConfig struct {
	// MaxKeys bounds the keys held, over all policies; a key with both sides takes
	// about 300 bytes and its own length. 0 means DefaultMaxKeys. Negative means no
	// bound: no key is ever dropped, not even an idle one, which a replay needs to be
	// exact.
	MaxKeys int
	// Synchronized has the Memory note what each key admits, for Changed and Join: the way in which processes exchange
	// their consumption behind their decisions.
	Synchronized bool
}

// DefaultMaxKeys is the bound on keys that keeps a Memory under about 400 MB.
const DefaultMaxKeys = 1 << 20

// overflowBuckets is how many buckets, per policy, the keys share that find no room.
const overflowBuckets = 1024

// Memory is the pair that keeps its state in this process: sharded, one entry a key for
// both sides, judged under one lock at one instant. It is safe for concurrent use.
//
// It is bounded. A new key that finds no room displaces an idle one. If a look around
// finds none, it displaces, of the keys that would still be allowed, the one nearest to
// idle, which loses least. A limited key is never displaced, for that would pardon it.
// If all are limited, the new key shares one of 1,024 overflow buckets of its policy
// with other keys, and the observations are degraded. All this goes by the enforced side
// alone; where the other side loses state by it, its observation is degraded.
//
// A zero Check.At means the monotonic clock, set by the wall clock at NewMemory.
type Memory struct {
	seed     maphash.Seed
	start    time.Time
	startUS  int64
	parts    partNames
	prepared preparedSides
	shards   []shard
	maxKeys  int // per shard; negative: no bound
	overflow atomic.Int64
	evicted  atomic.Int64

	synchronized bool
	turn         uint // of Changed, which has one caller
}

var _ Settler = (*Memory)(nil)

// NewMemory returns an empty pair.
func NewMemory(cfg MemoryConfig) *Memory {
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}

	now := time.Now()
	shards := shardCount(cfg.MaxKeys)
	m := &Memory{
		seed:    maphash.MakeSeed(),
		start:   now,
		startUS: now.UnixMicro(),
		shards:  make([]shard, shards),
		maxKeys: cfg.MaxKeys,

		synchronized: cfg.Synchronized,
	}
	if cfg.MaxKeys > 0 {
		m.maxKeys = max(1, cfg.MaxKeys/shards)
	}

	return m
}

// shardCount is a power of two that leaves each shard enough keys to choose a
// victim from.
func shardCount(maxKeys int) int {
	n := 1
	for n < 256 && (maxKeys < 0 || maxKeys/n > 1024) {
		n *= 2
	}
	return n
}

// Stats are the counts of a Memory since NewMemory.
type Stats struct {
	Keys       int   // held now, without overflow buckets
	Evicted    int64 // keys displaced, or found idle and dropped
	Overflowed int64 // checks judged on an overflow bucket
}

// Stats returns the counts. It takes each shard's lock in turn, so the keys are not
// counted at one instant.
func (m *Memory) Stats() Stats {
	s := Stats{Evicted: m.evicted.Load(), Overflowed: m.overflow.Load()}
	for i := range m.shards {
		m.shards[i].mu.Lock()
		s.Keys += len(m.shards[i].entries)
		m.shards[i].mu.Unlock()
	}

	return s
}

var errInto = errors.New("algorithms: evaluate: into is shorter than checks")

// Evaluate implements Pair. Each check, or list of checks that are charged together, is judged under its own locks: checks of
// other callers may come between.
func (m *Memory) Evaluate(ctx context.Context, checks []Check, into [][2]Observation) error {
	if len(into) < len(checks) {
		return errInto
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	for i := 0; i < len(checks); {
		n := 1
		if checks[i].Together > 0 {
			n = Listed(checks[i:])
		}
		if n == 1 {
			m.evaluate(&checks[i], &into[i])
		} else {
			m.evaluateTogether(checks[i:i+n], into[i:i+n])
		}
		i += n
	}
	return nil
}

func (m *Memory) evaluate(c *Check, into *[2]Observation) {
	key := recordKey{c.Policy, c.Key}
	sh, hash := m.shardOf(key)

	// The clock is read under the lock, so a key's instants have the order of its
	// checks. The lock is released by defer, since a user's algorithm may panic.
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := m.instant(c.At)

	e := sh.find(hash, key)
	sides, err := m.sidesOf(e, c, at)
	if err != nil {
		c.fail(err, into)
		return
	}
	if e != nil {
		if e.judge(c, &sides, at, into) && m.synchronized {
			sh.spend(e, c, &sides, into)
		}
		return
	}

	victim, ok := m.makeRoom(sh, at)
	if !ok {
		m.judgeOverflow(sh.overflowEntry(c.Policy, m.overflowSlot(hash)), c, &sides, at, into)
		return
	}
	m.judgeNew(sh, hash, key, victim, c, &sides, at, into)
}

// judgeOverflow judges a check of a key that shares a record with others. Requires its shard's mu.
func (m *Memory) judgeOverflow(e *entry, c *Check, sides *chargedSides, at int64, into *[2]Observation) {
	m.overflow.Add(1)
	e.judge(c, sides, at, into)
	into[0].Degraded, into[1].Degraded = true, true
}

// judgeNew judges a check of a key without a record, for which a victim may have to go. Requires sh.mu.
func (m *Memory) judgeNew(
	sh *shard, hash uint64, key recordKey, victim *entry, c *Check, sides *chargedSides, at int64, into *[2]Observation,
) {
	// A key that is only looked at, or denied at once, needs no record.
	e := &entry{}
	if !e.judge(c, sides, at, into) {
		return
	}

	// A victim that is not idle has state to lose. The enforced side's check is worth
	// that; if only the other side has something to keep, its state is lost instead.
	if victim != nil && victim.idleAt > at {
		into[c.Enforced.Other()].Degraded = true
		if !counted(c, c.Enforced, into) {
			return
		}
	}

	m.displace(sh, victim)
	sh.insert(hash, key, e)
	if m.synchronized {
		sh.spend(e, c, sides, into)
	}
}

// shardOf returns the shard of a key, and the hash of the key.
func (m *Memory) shardOf(key recordKey) (*shard, uint64) {
	hash := maphash.Comparable(m.seed, key)
	return &m.shards[hash%uint64(len(m.shards))], hash
}

// sidesOf returns what the pair knows of the check's sides, or the error of CheckSides.
func (m *Memory) sidesOf(e *entry, c *Check, at int64) (sides chargedSides, err error) {
	if e != nil && e.recognize(c, at, &sides) {
		return sides, nil
	}

	// A new key, or one with another limit than before. What recognize has begun to fill does not count.
	sides.ready = [2]*prepared{}
	if sides.names, err = m.parts.ofCheck(c); err != nil || validCheck(c.Cost, at) != nil {
		return sides, err
	}
	for r := range c.Sides {
		sides.ready[r] = m.prepared.of(&c.Sides[r], sides.names[r])
	}
	return sides, nil
}

// counted reports whether a side has charged its part of the record.
func counted(c *Check, r Role, into *[2]Observation) bool {
	return into[r].Status == Judged && into[r].Counts(c.Cost)
}

// makeRoom drops a few idle keys and returns the key to displace, nil where there is room
// without. It reports false where every key looked at is limited. Requires sh.mu.
func (m *Memory) makeRoom(sh *shard, at int64) (victim *entry, ok bool) {
	if m.maxKeys < 0 {
		return nil, true
	}

	m.evicted.Add(int64(sh.sweep(at)))
	if len(sh.entries) < m.maxKeys {
		return nil, true
	}

	victim = sh.victim(at)
	return victim, victim != nil
}

// displace drops the victim, if there is one. Requires sh.mu.
func (m *Memory) displace(sh *shard, victim *entry) {
	if victim != nil {
		m.evicted.Add(1)
		sh.remove(victim)
	}
}

// overflowSlot returns the overflow bucket, within its shard, of a key with that hash. A
// policy's buckets are spread over the shards, so a flood of new keys has no lock in
// common.
func (m *Memory) overflowSlot(hash uint64) int {
	shards := uint64(len(m.shards))
	return int(hash / shards % (overflowBuckets / shards))
}

// instant returns the microseconds at which to judge a check. The monotonic clock is
// not set back when the wall clock is.
func (m *Memory) instant(at time.Time) int64 {
	if at.IsZero() {
		return m.startUS + int64(time.Since(m.start)/time.Microsecond)
	}
	return at.UnixMicro()
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

var errSettled = errors.New("algorithms: settle: into is shorter than settlements")

// Settle implements Settler. A key that shares an overflow bucket is not settled: it is Late.
func (m *Memory) Settle(ctx context.Context, settlements []Settlement, into [][2]Settled) error {
	if len(into) < len(settlements) {
		return errSettled
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range settlements {
		m.settle(&settlements[i], &into[i])
	}
	return nil
}

func (m *Memory) settle(s *Settlement, into *[2]Settled) {
	r := s.Receipt
	*into = [2]Settled{}
	refused := s.Check()
	if refused == nil && s.Cost == r.Cost {
		return
	}

	key := recordKey{r.Policy, r.Key}
	sh, hash := m.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := m.instant(s.At)
	e := sh.find(hash, key)
	known := e != nil
	if !known {
		e = &entry{}
	}

	changed := false
	for role := range r.Sides {
		c, result := &r.Sides[role], &into[role]
		switch {
		case !c.Side.Present():
		case refused != nil:
			result.Err = refused
		case m.synchronized || !Settleable(c.Side.Algorithm):
			result.Err = ErrSettle
		default:
			name := m.parts.of(c.Side.ID, c.Side.Algorithm.Name())
			moved, counts := e.settleSide(name, c, r.Cost, s.Cost, at)
			result.Late = !counts
			changed = changed || moved
		}
	}
	if known || !changed {
		return
	}

	// A bucket whose debt had drained was forgotten, and is remembered again for what it is still charged.
	victim, room := m.makeRoom(sh, at)
	if !room || victim != nil && victim.idleAt > at {
		for role := range into {
			into[role].Late = r.Sides[role].Side.Present()
		}
		return
	}
	m.displace(sh, victim)
	sh.insert(hash, key, e)
}

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
		if p.entry.account.unsent() { // it may have been displaced meanwhile
			changes = p.entry.collect(changes)
			p.shard.settled(p.entry)
			waiting--
		}
		p.shard.mu.Unlock()
	}
	return changes, waiting
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
