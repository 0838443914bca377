package divergence

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Snapshot is what one instance writes to the ledger: its record, its ticks, the day's most frequent keys so far, and
// hashes of keys that may be new. It may be written any number of times.
type Snapshot struct {
	Record Record
	// Incarnation is part of the writer's name in the ledger.
	Incarnation int64
	// Whole reports that Day, Tops and Keys are part of the snapshot. A brief one leaves them out: they may wait for minutes.
	Whole bool
	// Repeated reports that the record is the one before once more. The next snapshot has the counts since then.
	Repeated bool
	// Ticks of the current entry of the ledger and of the one before, in order.
	Ticks []Tick

	// Day is the day of Tops, counted from the Unix epoch.
	Day int64
	// Tops are the most frequent keys, masked if there is a secret.
	Tops Lists
	// Keys are hashes by KeyKind that the ledger may not have counted yet.
	Keys [keyKinds][]uint64
}

const (
	topWritten   = 100          // keys of each kind that a snapshot carries
	unsentHashes = 64 * 1 << 10 // of each kind, kept over failed writes: 512 KiB
)

// Snapshot returns what to write at an instant of the store's clock. The instance counts as present in every minute
// since the last Snapshot, unless that is more than 10 minutes ago. Call Commit or Abandon after the write. Write one
// snapshot after the other: a Commit takes all hashes that wait as written.
func (r *Recorder) Snapshot(now time.Time) *Snapshot {
	r.flush.Lock()
	defer r.flush.Unlock()

	out := r.brief(now)
	out.Whole = true

	// Frequent keys belong to the day on which their lists began, until a Commit on a later day.
	if r.day == 0 {
		r.day = now.Unix() / SecondsPerDay
	}
	out.Day = r.day

	var tops [keyKinds][][]KeyCount
	for i := range r.stripes {
		r.stripes[i].collectKeys(&tops, &r.unsent)
	}

	// The hashes are copied, because the recorder goes on appending while the snapshot is written.
	for kind := range out.Tops {
		out.Tops[kind] = MergeTop(topWritten, tops[kind]...)
		r.maskTops(out.Tops[kind])
		r.unsent[kind] = r.unsent[kind][:min(len(r.unsent[kind]), unsentHashes)]
		out.Keys[kind] = slices.Clone(r.unsent[kind])
	}

	return out
}

// Brief returns a Snapshot without keys. It has what a judge looks at in each round. Call Commit or Abandon after the
// write, as of any Snapshot.
func (r *Recorder) Brief(now time.Time) *Snapshot {
	r.flush.Lock()
	defer r.flush.Unlock()

	return r.brief(now)
}

// brief is Brief. Requires r.flush.
func (r *Recorder) brief(now time.Time) *Snapshot {
	// A judge may have ended this writer, and the ledger may have forgotten that. The record would then count a
	// second time.
	if r.batches.forgotten(now) {
		r.beginIncarnation()
	}
	r.notePresence(now.Unix() / SecondsPerMinute)

	out := &Snapshot{Incarnation: r.incarnation, Repeated: r.batches.repeating, Ticks: r.ticks(now)}
	if out.Repeated {
		out.Record = r.batches.shown()
		return out
	}

	r.collectHours(now)
	out.Record = r.batches.next(now)
	return out
}

// collectHours moves what the stripes have counted, and the presence of the instance, to the open hours.
func (r *Recorder) collectHours(now time.Time) {
	// An hour without requests is written too: the instance was present.
	hours := map[int64]*Hour{}
	for hour, live := range r.live {
		hours[hour] = &Hour{Unix: hour, Live: live}
	}
	clear(r.live)

	for i := range r.stripes {
		r.stripes[i].collectHours(hours)
	}
	r.maskHours(hours)

	r.batches.take(hours)
	r.closeHours(now)
}

// Present notes that the instance is there, at an instant of the store's clock as far as it is known. Call it instead of
// Snapshot where nothing can be written.
func (r *Recorder) Present(now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.notePresence(now.Unix() / SecondsPerMinute)
	r.closeHours(now)
}

// ticks returns the ticks of the current entry of the ledger and of the one before.
func (r *Recorder) ticks(now time.Time) []Tick {
	var all []Tick
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.recent.dropBefore((now.Unix()/BucketSeconds - 1) * FreshTicks)
		for _, t := range s.recent.ticks {
			all = append(all, t.clone())
		}
		s.mu.Unlock()
	}

	// A key belongs to one stripe, so the heaviest of all stripes are the heaviest of this instance.
	joined := JoinTicks(all)
	for i := range joined {
		t := &joined[i]
		t.Lonely = r.heaviest(t.Lonely)
		t.Denied = r.heaviest(t.Denied)
		t.Allowed = r.heaviest(t.Allowed)
	}

	return joined
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

// Restart forgets everything that waits for the ledger, so that the evidence begins again. Totals stay.
func (r *Recorder) Restart() {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.beginIncarnation()

	// Presence and days of the time before belong to the evidence that has ended.
	r.liveTill = 0
	clear(r.live)
	r.day = 0
	r.listed = [keyKinds]bool{}
	for kind := range r.unsent {
		r.unsent[kind] = nil
	}

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

// Incarnation returns the number of the incarnation that writes.
func (r *Recorder) Incarnation() int64 {
	r.flush.Lock()
	defer r.flush.Unlock()

	return r.incarnation
}

// Acknowledge notes what the ledger said of an incarnation of this recorder. A judge that took the instance for gone has
// counted what it had written, so the recorder goes on as another writer with what it had not.
func (r *Recorder) Acknowledge(incarnation int64, ack Ack) {
	r.flush.Lock()
	defer r.flush.Unlock()

	switch {
	case incarnation != r.incarnation: // an answer to a question of before
	case ack.Ended > 0:
		r.beginIncarnation()
	default:
		r.batches.acked = ack.Batch
	}
}

// beginIncarnation makes later snapshots write beside the earlier ones, which keep what they have. Requires r.flush.
func (r *Recorder) beginIncarnation() {
	r.incarnation++
	r.batches = batches{}
}

// longestNap is the longest time between two snapshots, in minutes, in which the instance counts as present. After a
// longer one it was suspended, or the clock has jumped.
const longestNap = 10

// notePresence marks the minutes since the last call. Requires r.flush.
func (r *Recorder) notePresence(minute int64) {
	from := r.liveTill + 1
	if minute-r.liveTill > longestNap || minute < r.liveTill {
		from = minute
	}

	for m := from; m <= minute; m++ {
		r.live[m/MinutesPerHour] |= 1 << (m % MinutesPerHour)
	}
	r.liveTill = minute
}

// collectHours moves a stripe's hours. The last one stays with its room for the next counts.
func (s *stripe) collectHours(hours map[int64]*Hour) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, h := range s.hours {
		if len(h.Minutes) == 0 {
			continue
		}
		if hours[h.Unix] == nil {
			hours[h.Unix] = &Hour{Unix: h.Unix}
		}
		hours[h.Unix].join(h)
	}

	if n := len(s.hours); n > 0 {
		s.hours = slices.Delete(s.hours, 0, n-1)
		last := s.hours[0]
		*last = Hour{Unix: last.Unix, Minutes: last.Minutes[:0]}
	}
}

// collectKeys adds a stripe's frequent keys, and moves its new hashes. The recorder keeps those until a write succeeds, and
// the stripe has room for new ones.
func (s *stripe) collectKeys(tops *[keyKinds][][]KeyCount, unsent *[keyKinds][]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for kind, t := range s.tops {
		if t != nil {
			tops[kind] = append(tops[kind], slices.Clone(t.slots))
		}
		unsent[kind] = append(unsent[kind], s.fresh[kind]...)
		s.fresh[kind] = s.fresh[kind][:0]
	}
}

// writer returns the name under which a snapshot is stored.
func (s *Snapshot) writer(instance string) string { return Writer{instance, s.Incarnation}.String() }

// Changed reports whether anything was counted that is in no snapshot, or in one that may not be written.
func (r *Recorder) Changed() bool {
	r.flush.Lock()
	defer r.flush.Unlock()

	for i := range r.stripes {
		if r.stripes[i].counted() {
			return true
		}
	}
	return r.batches.repeating
}

// KeysWait reports whether the next snapshot should have keys: there are some of a kind that the ledger has none of, or a stripe
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

// Commit reports that a snapshot was written. On a new day the lists of frequent keys start empty.
func (r *Recorder) Commit(s *Snapshot, now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	if s.Incarnation != r.incarnation {
		return // the recorder has begun again while the snapshot was written
	}
	r.batches.repeating = false
	r.batches.written = now
	r.closeHours(now)
	if !s.Whole {
		return
	}

	for kind := range r.unsent {
		r.listed[kind] = r.listed[kind] || len(s.Keys[kind]) > 0
		r.unsent[kind] = r.unsent[kind][:0]
	}

	// The frequent keys of an old day were just written for the last time.
	day := now.Unix() / SecondsPerDay
	if day != r.day {
		r.dropTops()
	}
	r.day = day
}

// Abandon reports that a snapshot could not be written, or that it is not known whether it was. Its record is repeated, and
// everything else is kept for the next one, except hours beyond the memory bound.
func (r *Recorder) Abandon(now time.Time) {
	r.flush.Lock()
	defer r.flush.Unlock()

	r.closeHours(now)
}

// closeHours forgets the hours that are older than openHours. Later counts of them go to the first one that is kept.
// Requires r.flush.
func (r *Recorder) closeHours(now time.Time) {
	hour := now.Unix() / SecondsPerHour
	newHour := hour != r.hour
	r.hour = hour

	before := hour - openHours + 1
	maps.DeleteFunc(r.live, func(hour int64, _ uint64) bool { return hour < before })

	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.closed = before * MinutesPerHour
		s.hours = slices.DeleteFunc(s.hours, func(h *Hour) bool { return h.Unix < before })

		// Send all keys again once an hour: the ledger may have lost them.
		if newHour {
			s.sent = [keyKinds][sentHashes]uint64{}
		}
		s.mu.Unlock()
	}
}

// dropTops forgets the lists of frequent keys. Requires r.flush. Without lists in the ledger for the new day, its first
// keys are written soon; see KeysWait.
func (r *Recorder) dropTops() {
	r.listed = [keyKinds]bool{}
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		s.tops = [keyKinds]*top{}
		s.mu.Unlock()
	}
}
