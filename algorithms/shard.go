package algorithms

import (
	"strings"
	"sync"
)

// shard holds those keys whose hash falls to it. entries lists them for the hand, which
// walks round them to find idle keys and victims: a few at each insertion, so that no
// goroutine and no pause is needed. Exact order, such as by idleness, would take a heap
// that every check keeps up.
type shard struct {
	mu       sync.Mutex
	keys     map[uint64]*entry // by the hash that has chosen the shard: a key is hashed once
	entries  []*entry
	changed  []*entry // with something to tell the fleet, where the Memory is synchronized
	hand     int
	overflow map[overflowKey]*entry
	_        [64]byte // keep the locks of neighbours off one cache line
}

type overflowKey struct {
	policy string
	slot   int
}

// Work of one insertion. A flood of new keys must not cost others their lock.
const (
	sweepEntries  = 2  // looked at to drop idle keys
	victimEntries = 32 // looked at to find a key to displace
)

// insert adds a key that is not there. It copies the key, which may share the memory of a
// whole request; a policy's name comes from configuration and lives as long. Requires mu.
func (s *shard) insert(hash uint64, key recordKey, e *entry) {
	if s.keys == nil {
		s.keys = make(map[uint64]*entry)
	}

	e.key = recordKey{key.policy, strings.Clone(key.key)}
	e.index = len(s.entries)
	s.entries = append(s.entries, e)
	e.hash, e.next = hash, s.keys[hash]
	s.keys[hash] = e
}

// find returns the entry of a key, nil if there is none. Requires mu.
func (s *shard) find(hash uint64, key recordKey) *entry {
	e := s.keys[hash]
	for e != nil && e.key != key {
		e = e.next
	}
	return e
}

// unlink takes an entry out of keys. Requires mu.
func (s *shard) unlink(e *entry) {
	first := s.keys[e.hash]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		s.keys[e.hash] = e.next
	default:
		delete(s.keys, e.hash)
	}
}

// remove drops a key, and moves the last entry into its place. Requires mu.
func (s *shard) remove(e *entry) {
	last := len(s.entries) - 1
	moved := s.entries[last]
	s.entries[e.index] = moved
	moved.index = e.index

	s.entries[last] = nil // an entry beyond the length would not be collected
	s.entries = s.entries[:last]

	s.unlink(e)
	s.settled(e)
}

// next moves the hand on and returns the entry under it. Requires mu and an entry.
func (s *shard) next() *entry {
	s.hand++
	if s.hand >= len(s.entries) {
		s.hand = 0
	}
	return s.entries[s.hand]
}

// sweep looks at a few keys, drops idle ones, and returns their number. With two
// looks for each new key, the hand goes round faster than the shard grows. Requires mu.
func (s *shard) sweep(at int64) (dropped int) {
	for range sweepEntries {
		if len(s.entries) == 0 {
			return dropped
		}

		if e := s.next(); e.idleAt <= at && !e.account.unsent() {
			s.remove(e)
			dropped++
		}
	}
	return dropped
}

// victim returns the key to displace: an idle one, else the least indebted of the
// keys that would be allowed, else nil. Requires mu.
func (s *shard) victim(at int64) *entry {
	var best *entry
	for range min(victimEntries, len(s.entries)) {
		e := s.next()
		if e.idleAt <= at {
			return e
		}

		if e.freeAt <= at && (best == nil || e.lessIndebted(best)) {
			best = e
		}
	}
	return best
}

// overflowEntry returns a shared bucket, making it if need be. Requires mu.
func (s *shard) overflowEntry(policy string, slot int) *entry {
	key := overflowKey{policy, slot}
	if e := s.overflow[key]; e != nil {
		return e
	}

	if s.overflow == nil {
		s.overflow = make(map[overflowKey]*entry)
	}
	e := &entry{}
	s.overflow[key] = e
	return e
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
				if e.account == nil {
					e.account = &account{index: -1}
				}
				e.account.tab(p.name, &e.parts).spend(&c.Sides[r], sides.ready[r], &p.state, c.Cost)
			}
		}
	}

	if changed && e.account.index < 0 {
		e.account.index = len(s.changed)
		s.changed = append(s.changed, e)
	}
}

// settled takes an entry off the list of changed ones. Requires mu.
func (s *shard) settled(e *entry) {
	if !e.account.unsent() {
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
