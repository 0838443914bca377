package divergence

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// memoryKeys bounds the distinct keys that a MemoryLedger counts, per epoch and kind: it keeps the exact sets of their
// hashes, so a larger number would cost memory in proportion.
const memoryKeys = 10_000

// MemoryLedger is the ledger of a single instance, in its memory. It keeps the last 32 days, and counts at most 10,000
// distinct keys of a kind.
type MemoryLedger struct {
	// mu guards all maps. Writes come every few seconds and reads with each assessment, so one lock suffices.
	mu   sync.Mutex
	days map[ID]map[int64]*memoryDay
	keys map[ID]*[keyKinds]map[uint64]struct{}
	// ticks of the last snapshot of each instance, which holds the current entry and the one before.
	ticks map[ID]map[string][]Tick
}

// memoryDay is one day of an ID, the unit in which old entries are forgotten.
type memoryDay struct {
	hours map[instanceHour]Hour
	tops  map[string][keyKinds][]KeyCount // by writer
}

// instanceHour names an entry: a later write of the same writer and hour replaces it.
type instanceHour struct {
	instance string // the snapshot's writer, with its incarnation
	hour     int64
}

var _ Ledger = (*MemoryLedger)(nil)

// NewMemoryLedger returns an empty ledger.
func NewMemoryLedger() *MemoryLedger {
	return &MemoryLedger{
		days:  map[ID]map[int64]*memoryDay{},
		keys:  map[ID]*[keyKinds]map[uint64]struct{}{},
		ticks: map[ID]map[string][]Tick{},
	}
}

// day returns a day of a policy, which it creates if it is new. Requires l.mu.
func (l *MemoryLedger) day(id ID, day int64) *memoryDay {
	days := l.days[id]
	if days == nil {
		days = map[int64]*memoryDay{}
		l.days[id] = days
	}

	// A new day is the occasion to forget old ones, which bounds memory without a goroutine.
	if days[day] == nil {
		days[day] = &memoryDay{hours: map[instanceHour]Hour{}, tops: map[string][keyKinds][]KeyCount{}}
		for old := range days {
			if old < day-KeptDays {
				delete(days, old)
			}
		}
	}

	return days[day]
}

// Write implements Ledger.
func (l *MemoryLedger) Write(_ context.Context, id ID, instance string, s *Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	writer := s.writer(instance)
	for _, h := range s.Hours {
		l.day(id, h.Unix/HoursPerDay).hours[instanceHour{writer, h.Unix}] = h
	}
	l.day(id, s.Day).tops[writer] = s.Tops

	// A snapshot has all ticks that anyone may still ask for, so the last one replaces the earlier ones.
	if l.ticks[id] == nil {
		l.ticks[id] = map[string][]Tick{}
	}
	l.ticks[id][writer] = s.Ticks

	if l.keys[id] == nil {
		l.keys[id] = &[keyKinds]map[uint64]struct{}{}
	}
	for kind, hashes := range s.Keys {
		if l.keys[id][kind] == nil {
			l.keys[id][kind] = map[uint64]struct{}{}
		}
		for _, hash := range hashes {
			if len(l.keys[id][kind]) < memoryKeys {
				l.keys[id][kind][hash] = struct{}{}
			}
		}
	}

	return nil
}

// Hours implements Ledger.
func (l *MemoryLedger) Hours(_ context.Context, id ID, from, to int64) ([]Hour, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var out []Hour
	for _, d := range l.days[id] {
		for k, h := range d.hours {
			if k.hour >= from && k.hour <= to {
				out = append(out, h)
			}
		}
	}
	slices.SortFunc(out, func(a, b Hour) int { return cmp.Compare(a.Unix, b.Unix) })

	return out, nil
}

// Distinct implements Ledger.
func (l *MemoryLedger) Distinct(_ context.Context, id ID) (n [keyKinds]int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if keys := l.keys[id]; keys != nil {
		for kind := range n {
			n[kind] = int64(len(keys[kind]))
		}
	}

	return n, nil
}

// Ticks implements Ledger.
func (l *MemoryLedger) Ticks(_ context.Context, id ID, from, to int64) ([]Tick, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var all []Tick
	for _, ticks := range l.ticks[id] {
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

	var lists [][]KeyCount
	for day, d := range l.days[id] {
		for _, tops := range d.tops {
			if day >= from && day <= to {
				lists = append(lists, tops[kind])
			}
		}
	}

	return MergeTop(topWritten, lists...), nil
}
