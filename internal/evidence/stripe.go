package evidence

import (
	"slices"
	"sync"
)

// stripe is the part of a recorder that counts the keys of one share of the hashes. A key is always in the same stripe,
// so lists of keys of different stripes have no key in common.
type stripe struct {
	mu     sync.Mutex // guards the fields below; never held while another stripe's is taken
	total  Totals
	hours  []*Hour // in order, at most openHours
	closed int64   // minutes before this one, the first of an hour, take no more counts
	recent ticking
	denied deniedKeys
	tops   [keyKinds]*top               // nil until the kind's first key since the last batch
	sent   [keyKinds][sentHashes]uint64 // hashes queued recently, by their bits; 0 is free
	fresh  [keyKinds][]uint64           // hashes that collect takes away
	_      [64]byte                     // keeps the neighbour's lock off this one's cache line
}

// minute returns the counts of a minute and of its hour. They are valid while the stripe's lock is held.
func (s *stripe) minute(unix int64) (*Hour, *Minute) {
	// A late observation of a closed hour counts in the oldest open one: the closed hour was read for the last time.
	unix = max(unix, s.closed)

	// Requests are nearly always of the latest minute, so it comes first, and the search starts there.
	i := len(s.hours)
	if i > 0 {
		if latest := s.hours[i-1].latest(unix); latest != nil {
			return s.hours[i-1], latest
		}
	}

	hour := unix / MinutesPerHour
	for i > 0 && s.hours[i-1].Unix > hour {
		i--
	}
	if i > 0 && s.hours[i-1].Unix == hour {
		return s.hours[i-1], s.hours[i-1].at(unix)
	}

	// More open hours than the clock can explain: keep the memory bound.
	if n := len(s.hours); n >= openHours {
		last := s.hours[n-1]
		return last, last.at(last.Unix * MinutesPerHour)
	}

	s.hours = slices.Insert(s.hours, i, &Hour{Unix: hour})
	return s.hours[i], s.hours[i].at(unix)
}

// counted reports whether there are counts that no batch has.
func (s *stripe) counted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.ContainsFunc(s.hours, func(h *Hour) bool { return len(h.Minutes) > 0 })
}

// crowded reports whether hashes of a kind wait, and whether they are more than half of the most that may wait.
func (s *stripe) crowded(kind KeyKind) (waits, crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	n := len(s.fresh[kind])
	return n > 0, n > newHashes/2
}

// top returns the frequent keys of a kind. Most policies never have some kinds, so a list begins with its first key.
func (s *stripe) top(kind KeyKind) *top {
	if s.tops[kind] == nil {
		s.tops[kind] = newTop(topSlots)
	}
	return s.tops[kind]
}

// queueHash queues a hash for the ledger's count of distinct keys, unless it was sent recently. The ledger counts a
// hash that is sent twice once.
func (s *stripe) queueHash(kind KeyKind, hash uint64) {
	// The lowest bits of the hash have chosen the stripe, so they are the same for all its keys. A hash that finds
	// the queue full is not noted as sent: it is queued when its key comes again.
	slot := &s.sent[kind][hash>>8%sentHashes]
	if *slot == hash || len(s.fresh[kind]) >= newHashes {
		return
	}

	// Another hash with the same slot replaces this one, which is then sent again: the table is small, and that is
	// cheap.
	*slot = hash
	s.fresh[kind] = append(s.fresh[kind], hash)
}

// collect moves a stripe's hours and ticks to the slots of their minutes. The last hour stays with its room for the next counts.
func (s *stripe) collect(at func(minute int64) *Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, h := range s.hours {
		if len(h.Minutes) == 0 {
			continue
		}
		for i := range h.Minutes {
			at(h.Minutes[i].Unix).Minute.Join(&h.Minutes[i])
		}

		// What is counted by the hour may be of any of its minutes.
		last := at(h.Minutes[len(h.Minutes)-1].Unix)
		last.Causes.add(&h.Causes)
		last.Skipped.add(&h.Skipped)
		last.Protected.Join(h.Protected)
	}
	if n := len(s.hours); n > 0 {
		s.hours = slices.Delete(s.hours, 0, n-1)
		last := s.hours[0]
		*last = Hour{Unix: last.Unix, Minutes: last.Minutes[:0]}
	}

	for i := range s.recent.ticks {
		t := &s.recent.ticks[i]
		at(t.Unix / ticksPerMinute).tick(t.Unix).Join(t)
	}
	s.recent.ticks = nil
}

// collectKeys moves a stripe's frequent keys and its new hashes.
func (s *stripe) collectKeys(tops *[keyKinds][][]KeyCount, hashes *[keyKinds][]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for kind, t := range s.tops {
		if t != nil {
			tops[kind] = append(tops[kind], t.slots)
			s.tops[kind] = nil
		}
		hashes[kind] = append(hashes[kind], s.fresh[kind]...)
		s.fresh[kind] = s.fresh[kind][:0]
	}
}
