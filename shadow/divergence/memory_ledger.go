package divergence

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// memoryKeys bounds the distinct keys that a MemoryLedger counts, per epoch and kind: it keeps the exact sets of their
// hashes, so a larger number would cost memory in proportion.
const memoryKeys = 10_000

// MemoryLedger is the ledger of a single instance, in its memory. It keeps the last 32 days, and counts at most 10,000
// distinct keys of a kind.
type MemoryLedger struct {
	// mu guards all entries. Writes come every few seconds and reads with each assessment, so one lock suffices.
	mu      sync.Mutex
	entries map[ID]*memoryEntries
}

// memoryEntries are those of one ID. Lists are by the names of their writers, and nothing in them or in an hour is
// changed once it is stored.
type memoryEntries struct {
	mark    Mark
	hours   map[int64]Hour
	records map[string]Record
	acks    map[string]Ack
	lists   map[int64]map[string]Lists // by day
	keys    [keyKinds]map[uint64]struct{}
	// ticks of the last snapshot of each writer, which holds the current entry and the one before.
	ticks map[string][]Tick
}

var _ Ledger = (*MemoryLedger)(nil)

// NewMemoryLedger returns an empty ledger.
func NewMemoryLedger() *MemoryLedger { return &MemoryLedger{entries: map[ID]*memoryEntries{}} }

// of returns the entries of an ID, which it creates if it is new. Requires l.mu.
func (l *MemoryLedger) of(id ID) *memoryEntries {
	e := l.entries[id]

	// All maps are made here, so that no method has to look for nil.
	if e == nil {
		e = &memoryEntries{
			hours:   map[int64]Hour{},
			records: map[string]Record{},
			acks:    map[string]Ack{},
			lists:   map[int64]map[string]Lists{},
			ticks:   map[string][]Tick{},
		}
		for kind := range e.keys {
			e.keys[kind] = map[uint64]struct{}{}
		}

		l.entries[id] = e
	}
	return e
}

// Write implements Ledger.
func (l *MemoryLedger) Write(_ context.Context, id ID, instance string, s *Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	// A snapshot has all ticks that a trigger may still ask for, so the last one replaces the earlier ones.
	e, writer := l.of(id), s.writer(instance)
	e.records[writer] = s.Record
	e.ticks[writer] = s.Ticks

	// A brief snapshot has no keys, and names no day for them.
	if !s.Whole {
		return nil
	}

	if s.Tops.any() {
		e.day(s.Day)[writer] = s.Tops
	}
	for kind, hashes := range s.Keys {
		for _, hash := range hashes {
			if len(e.keys[kind]) < memoryKeys {
				e.keys[kind][hash] = struct{}{}
			}
		}
	}

	return nil
}

// day returns the lists of a day. A new day is the occasion to forget old ones, which bounds memory without a goroutine.
func (e *memoryEntries) day(day int64) map[string]Lists {
	if e.lists[day] == nil {
		e.lists[day] = map[string]Lists{}
		maps.DeleteFunc(e.lists, func(old int64, _ map[string]Lists) bool { return old < day-KeptDays })
	}
	return e.lists[day]
}

// setHour stores an hour, and forgets old ones when it is new. It keeps a day more than KeptDays, as a RedisLedger does.
func (e *memoryEntries) setHour(h Hour) {
	if _, known := e.hours[h.Unix]; !known {
		maps.DeleteFunc(e.hours, func(old int64, _ Hour) bool { return old < h.Unix-(KeptDays+1)*HoursPerDay })
	}
	e.hours[h.Unix] = h
}

// Acked implements Ledger.
func (l *MemoryLedger) Acked(_ context.Context, id ID, writer Writer) (Ack, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.of(id).acks[writer.String()], nil
}

// Hours implements Ledger.
func (l *MemoryLedger) Hours(_ context.Context, id ID, from, to int64) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.of(id).page(from, to), nil
}

// page returns some hours, both included, in order: readers rely on it as on the order of Redis.
func (e *memoryEntries) page(from, to int64) Page {
	page := Page{Mark: e.mark}
	for _, unix := range slices.Sorted(maps.Keys(e.hours)) {
		if unix >= from && unix <= to {
			page.Hours = append(page.Hours, e.hours[unix])
		}
	}
	return page
}

// Evidence implements Ledger.
func (l *MemoryLedger) Evidence(_ context.Context, id ID, from, to int64) (Evidence, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	e := l.of(id)
	return Evidence{e.page(from, to), maps.Clone(e.records), maps.Clone(e.acks)}, nil
}

// Fold implements Ledger.
func (l *MemoryLedger) Fold(_ context.Context, id ID, f *Fold) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	e := l.of(id)

	// A judge that has read the ledger before another one's fold would count that fold's batches again.
	if e.mark.Fold != f.Expect {
		return ErrFolded
	}

	e.mark = f.Mark
	for _, h := range f.Hours {
		e.setHour(h)
	}
	for day, lists := range f.Lists {
		e.day(day)[FleetWriter] = lists
	}
	maps.Copy(e.acks, f.Acks)
	e.remove(f)

	return nil
}

// remove removes what a fold has taken over. What stays here and is also in the fold would count twice.
func (e *memoryEntries) remove(f *Fold) {
	for _, writer := range f.Forgotten {
		delete(e.acks, writer)
	}
	for _, writer := range f.Removed {
		delete(e.records, writer)
		delete(e.ticks, writer)
	}

	// Lists of days that are over are part of the fleet's now.
	for day, writers := range f.RemovedLists {
		for _, writer := range writers {
			delete(e.lists[day], writer)
		}
	}
}

// Distinct implements Ledger.
func (l *MemoryLedger) Distinct(_ context.Context, id ID) (n [keyKinds]int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for kind, keys := range l.of(id).keys {
		n[kind] = int64(len(keys))
	}

	return n, nil
}

// Ticks implements Ledger.
func (l *MemoryLedger) Ticks(_ context.Context, id ID, from, to int64) ([]Tick, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var all []Tick
	for _, ticks := range l.of(id).ticks {
		for _, t := range ticks {
			if b := bucketOf(t.Unix); b >= from && b <= to {
				all = append(all, t)
			}
		}
	}

	return JoinTicks(all), nil
}

// Top implements Ledger.
func (l *MemoryLedger) Top(_ context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	e := l.of(id)
	var lists [][]KeyCount
	for day, all := range e.lists {
		if day < from || day > to {
			continue
		}
		for _, counted := range countedLists(all, day, e.mark, e.acks) {
			lists = append(lists, counted[kind])
		}
	}

	return MergeTop(topWritten, lists...), nil
}

// Lists implements Ledger.
func (l *MemoryLedger) Lists(_ context.Context, id ID, day int64) (map[string]Lists, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return maps.Clone(l.of(id).lists[day]), nil
}
