package algorithms

import (
	"context"
	"errors"
	"hash/maphash"
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
