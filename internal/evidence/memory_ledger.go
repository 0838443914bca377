package evidence

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// memoryKeys bounds the distinct keys that a MemoryLedger counts, per ID and kind: it keeps the exact sets of their
// hashes, so a larger number would cost memory in proportion.
const memoryKeys = 10_000

// memoryTables bounds the IDs: a file has at most 1,000 policies, and each change of a fingerprint begins another table.
const memoryTables = 2000

// MemoryLedger is the ledger of a single instance: the table of a RedisLedger in its memory. It counts at most 10,000 distinct
// keys of a kind.
type MemoryLedger struct {
	// mu guards all tables. Writes come every few seconds and reads with each assessment, so one lock suffices.
	mu     sync.Mutex
	tables map[ID]*memoryTable
}

// memoryTable has the entries of one ID. Nothing in a stored hour is changed.
type memoryTable struct {
	used    time.Time
	slots   map[int64]*Slot
	change  int64 // the last one
	writers map[string]memoryWriter
	hours   map[int64]memoryHour
	tops    [keyKinds]*top
	keys    [keyKinds]map[uint64]struct{}
}

type memoryWriter struct {
	seq int64
	at  time.Time // of its last batch
}

type memoryHour struct {
	Hour
	change int64
}

var _ Ledger = (*MemoryLedger)(nil)

// NewMemoryLedger returns an empty ledger.
func NewMemoryLedger() *MemoryLedger { return &MemoryLedger{tables: map[ID]*memoryTable{}} }

// of returns the table of an ID, which it creates if it is new. What is too old is gone. Requires l.mu.
func (l *MemoryLedger) of(id ID) *memoryTable {
	t, now := l.tables[id], time.Now()
	if t == nil {
		t = &memoryTable{slots: map[int64]*Slot{}, writers: map[string]memoryWriter{}, hours: map[int64]memoryHour{}}
		for kind := range t.keys {
			t.tops[kind], t.keys[kind] = newTop(topKept), map[uint64]struct{}{}
		}
		l.makeRoom(now)
		l.tables[id] = t
	}
	t.used = now
	maps.DeleteFunc(t.slots, func(minute int64, _ *Slot) bool { return !now.Before(gone(minute / MinutesPerHour)) })
	maps.DeleteFunc(t.writers, func(_ string, w memoryWriter) bool { return now.Sub(w.at) >= writersLive })
	maps.DeleteFunc(t.hours, func(hour int64, _ memoryHour) bool { return now.Unix()-hour*SecondsPerHour >= seconds(hoursLive) })
	return t
}

// makeRoom drops the tables that have outlived their hours, and of too many the one that was not used for longest. Requires l.mu.
func (l *MemoryLedger) makeRoom(now time.Time) {
	maps.DeleteFunc(l.tables, func(_ ID, t *memoryTable) bool { return now.Sub(t.used) >= hoursLive })
	if len(l.tables) < memoryTables {
		return
	}
	var oldest ID
	at := now
	for id, t := range l.tables {
		if !t.used.After(at) {
			oldest, at = id, t.used
		}
	}
	delete(l.tables, oldest)
}

// Add implements Ledger.
func (l *MemoryLedger) Add(_ context.Context, id ID, b *Batch) (dropped int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	t, now := l.of(id), time.Now()
	if b.Seq <= t.writers[b.Writer].seq {
		return 0, nil
	}
	t.writers[b.Writer] = memoryWriter{b.Seq, now}
	for i := range b.Slots {
		if takes(b.Slots[i].Unix, now) {
			t.add(&b.Slots[i])
		} else {
			dropped++
		}
	}

	for kind := range b.Keys {
		for _, k := range b.Tops[kind] {
			t.tops[kind].addCount(k)
		}
		for _, hash := range b.Keys[kind] {
			if len(t.keys[kind]) < memoryKeys {
				t.keys[kind][hash] = struct{}{}
			}
		}
	}
	return dropped, nil
}

// add adds to a slot. Its lists become new ones: what was read shares the ones before.
func (t *memoryTable) add(s *Slot) {
	t.change++
	sum := &Slot{Minute: Minute{Unix: s.Unix}, Change: t.change}
	if before := t.slots[s.Unix]; before != nil {
		sum.join(before)
	}
	sum.join(s)
	for i := range sum.Ticks {
		tick := &sum.Ticks[i]
		tick.Harmed = unique(tick.Harmed)
		for _, list := range tickWeights(tick) {
			*list.weights = list.weights.Top(weightsKept)
		}
	}
	t.slots[s.Unix] = sum
}

// unique returns the first hashes that a tick lists, each once.
func unique(hashes []uint32) []uint32 {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	return hashes[:min(len(hashes), harmedKept)]
}

// Slots implements Ledger.
func (l *MemoryLedger) Slots(_ context.Context, id ID, from, since int64) (slots []Slot, last int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	t := l.of(id)
	for _, s := range t.slots {
		if s.Unix >= from && s.Change >= since {
			slots = append(slots, *s)
		}
	}
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Unix, b.Unix) })
	return slots, t.change, nil
}

// Store implements Ledger.
func (l *MemoryLedger) Store(_ context.Context, id ID, h *Hour, change int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if t := l.of(id); change > t.hours[h.Unix].change && time.Now().Before(gone(h.Unix)) {
		t.hours[h.Unix] = memoryHour{*h, change}
	}
	return nil
}

// Hours implements Ledger.
func (l *MemoryLedger) Hours(_ context.Context, id ID, from, to int64) (hours []Hour, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	t := l.of(id)
	for _, hour := range slices.Sorted(maps.Keys(t.hours)) {
		if hour >= from && hour <= to {
			hours = append(hours, t.hours[hour].Hour)
		}
	}
	return hours, nil
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

// Top implements Ledger.
func (l *MemoryLedger) Top(_ context.Context, id ID, kind KeyKind) ([]KeyCount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return MergeTop(topWritten, l.of(id).tops[kind].slots), nil
}
