package evidence

import (
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	topWritten   = 100          // keys of each kind that a batch carries
	unsentHashes = 64 * 1 << 10 // of each kind that a batch carries: 512 KiB
	// slotsWritten bounds what one script of Redis has to do. After an outage of an hour the rest comes with the next batches.
	slotsWritten = 30
)

// Batch returns what to write at an instant of the store's clock, with keys if whole. The instance counts as present in every
// minute since the last Batch, unless that is more than 10 minutes ago. Until Written says that it was written, Batch returns
// the same one, and what is counted meanwhile is in the next.
func (r *Recorder) Batch(now time.Time, whole bool) *Batch {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.notePresence(now.Unix() / SecondsPerMinute)
	if len(r.waiting) == 0 {
		r.collect(now, whole)
	}
	r.closeHours(now)
	return r.waiting[0]
}

// Collect returns all that waits to be written, with what was counted until an instant unless an earlier batch waits, and with keys:
// for an owner that keeps batches until they are written.
func (r *Recorder) Collect(now time.Time) []*Batch {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.notePresence(now.Unix() / SecondsPerMinute)
	if len(r.waiting) == 0 {
		r.collect(now, true)
	}
	r.closeHours(now)
	return slices.Clone(r.waiting)
}

// Written reports that a batch was written.
func (r *Recorder) Written(b *Batch) {
	r.flush.Lock()
	defer r.flush.Unlock()

	// The recorder may have begun again while the batch was written.
	if len(r.waiting) == 0 || r.waiting[0] != b {
		return
	}
	r.waiting = r.waiting[1:]
	for kind, keys := range b.Keys {
		r.listed[kind] = r.listed[kind] || len(keys) > 0
	}
}

// Present notes that the instance is there, at an instant of the store's clock as far as it is known. Call it instead of
// Batch where nothing can be written.
func (r *Recorder) Present(now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.notePresence(now.Unix() / SecondsPerMinute)
	r.closeHours(now)
}

// Changed reports whether anything was counted that is in no batch, or in one that may not be written.
func (r *Recorder) Changed() bool {
	r.flush.Lock()
	defer r.flush.Unlock()

	for i := range r.stripes {
		if r.stripes[i].counted() {
			return true
		}
	}
	return len(r.waiting) > 0
}

// Waiting reports whether there are batches of which it is not known whether they were written.
func (r *Recorder) Waiting() bool {
	r.flush.Lock()
	defer r.flush.Unlock()

	return len(r.waiting) > 0
}

// KeysWait reports whether the next batch should have keys: there are some of a kind that the ledger has none of, or a stripe
// has more than half of the most that it may have.
func (r *Recorder) KeysWait() bool {
	r.flush.Lock()
	defer r.flush.Unlock()

	for i := range r.stripes {
		for kind, listed := range r.listed {
			if waits, crowded := r.stripes[i].crowded(KeyKind(kind)); crowded || waits && !listed {
				return true
			}
		}
	}
	return false
}

// Restart forgets everything that waits for the ledger, so that the evidence begins again. Totals stay.
func (r *Recorder) Restart() {
	r.flush.Lock()
	defer r.flush.Unlock()

	// Presence of the time before belongs to the evidence that has ended.
	r.begin()
	r.liveTill = 0
	clear(r.live)
	r.listed = [keyKinds]bool{}

	// Totals are metrics, which must not go down.
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.tops = [keyKinds]*top{}
		s.fresh = [keyKinds][]uint64{}
		s.sent = [keyKinds][sentHashes]uint64{}
		s.recent = ticking{}
		s.hours = nil
		s.mu.Unlock()
	}
}

// begin begins another writer, which has written nothing. Requires r.flush.
func (r *Recorder) begin() { r.writer, r.seq, r.waiting = rand.Text(), 0, nil }

// collect makes batches of all that was counted. One without counts is written too: the instance is present. Requires r.flush.
func (r *Recorder) collect(now time.Time, whole bool) {
	slots := map[int64]*Slot{}
	at := func(minute int64) *Slot {
		if slots[minute] == nil {
			slots[minute] = &Slot{Minute: Minute{Unix: minute}}
		}
		return slots[minute]
	}
	for minute := range r.live {
		at(minute).Live = 1
	}
	clear(r.live)

	var keys Batch
	var tops [keyKinds][][]KeyCount
	for i := range r.stripes {
		r.stripes[i].collect(at)
		if whole {
			r.stripes[i].collectKeys(&tops, &keys.Keys)
		}
	}
	for kind := range tops {
		keys.Tops[kind] = MergeTop(topWritten, tops[kind]...)
		r.maskTops(keys.Tops[kind])
		keys.Keys[kind] = keys.Keys[kind][:min(len(keys.Keys[kind]), unsentHashes)]
	}

	minutes := slices.Sorted(maps.Keys(slots))
	for begin := 0; begin == 0 || begin < len(minutes); begin += slotsWritten {
		r.seq++
		b := &Batch{Writer: r.writer, Seq: r.seq}
		for _, minute := range minutes[begin:min(begin+slotsWritten, len(minutes))] {
			s := slots[minute]
			r.finish(s)
			b.Slots = append(b.Slots, *s)
		}
		r.waiting = append(r.waiting, b)
	}
	r.waiting[len(r.waiting)-1].Until = now
	first := r.waiting[0]
	first.Whole, first.Tops, first.Keys = whole, keys.Tops, keys.Keys
}

// finish masks keys, and leaves of a tick's weights the heaviest.
func (r *Recorder) finish(s *Slot) {
	r.maskSlot(s)
	for i := range s.Ticks {
		t := &s.Ticks[i]
		t.Lonely = r.heaviest(t.Lonely)
		t.Denied = r.heaviest(t.Denied)
		t.Allowed = r.heaviest(t.Allowed)
	}
}

// heaviest returns the keys that a tick in the ledger names.
func (r *Recorder) heaviest(all Weights) Weights {
	top := all.Top(heaviest)
	for i := range top {
		top[i].Key = r.masked(top[i].Key)
	}
	return top
}

// jsonSafe quotes a key that is not UTF-8: JSON would replace its bytes, and different keys would become equal.
func jsonSafe(key string) string {
	if utf8.ValidString(key) {
		return key
	}
	return strconv.QuoteToASCII(key)
}

// longestNap is the longest time between two batches, in minutes, in which the instance counts as present. After a
// longer one it was suspended, or the clock has jumped.
const longestNap = 10

// notePresence marks the minutes since the last call. Requires r.flush.
func (r *Recorder) notePresence(minute int64) {
	from := r.liveTill + 1
	if minute-r.liveTill > longestNap || minute < r.liveTill {
		from = minute
	}
	for m := from; m <= minute; m++ {
		r.live[m] = struct{}{}
	}
	r.liveTill = minute
}

// closeHours forgets the hours that the ledger would not take any more. Later counts of them go to the first one that is kept.
// Requires r.flush.
func (r *Recorder) closeHours(now time.Time) {
	hour := now.Unix() / SecondsPerHour
	newHour := hour != r.hour
	r.hour = hour

	before := hour - openHours + 1
	maps.DeleteFunc(r.live, func(minute int64, _ struct{}) bool { return minute < before*MinutesPerHour })

	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.closed = before * MinutesPerHour
		s.hours = slices.DeleteFunc(s.hours, func(h *Hour) bool { return h.Unix < before })
		s.recent.dropBefore(before * MinutesPerHour * ticksPerMinute)

		// Send all keys again once an hour: the ledger may have lost them.
		if newHour {
			s.sent = [keyKinds][sentHashes]uint64{}
		}
		s.mu.Unlock()
	}
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
