package evidence

import (
	"crypto/rand"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Bounds of a recorder's memory.
const (
	topSlots   = 64   // per kind and stripe
	sentHashes = 256  // remembered as sent to the ledger, per kind and stripe
	newHashes  = 4096 // waiting for the ledger, per stripe
	openHours  = 3    // kept while the ledger cannot be written: it takes what is two hours old
)

const (
	topWritten   = 100          // keys of each kind that a batch carries
	unsentHashes = 64 * 1 << 10 // of each kind that a batch carries: 512 KiB
	// slotsWritten bounds what one script of Redis has to do. After an outage of an hour the rest comes with the next batches.
	slotsWritten = 30
)

// Recorder counts what one instance sees of one policy. All methods may be called concurrently.
//
// Observe is on the path of every request. It spreads keys over stripes, each with a lock and memory of its own, so
// that requests of different keys rarely wait for each other.
type Recorder struct {
	stripes []stripe
	mask    mask

	// flush guards the fields below, which no request touches.
	flush    sync.Mutex
	writer   string             // names this recorder in the ledger
	seq      int64              // of the last batch
	waiting  []*Batch           // of which it is not known whether they are written, in order
	hour     int64              // of the last batch
	liveTill int64              // minute up to which presence is noted
	live     map[int64]struct{} // minutes of presence that are in no batch
	listed   [keyKinds]bool     // the ledger has keys of the kind
}

// NewRecorder returns an empty recorder. With a secret, keys leave it as HMACs only.
func NewRecorder(secret []byte) *Recorder {
	// Twice as many stripes as processors, rounded up to a power of two: then two requests rarely need the same lock.
	n := 1 << bits.Len(uint(2*runtime.GOMAXPROCS(0)-1))

	// At most 64, because the hashes that a stripe remembers as sent take 8 KiB alone.
	r := &Recorder{stripes: make([]stripe, min(64, n)), mask: secret, live: map[int64]struct{}{}}
	r.begin()
	return r
}

// begin begins another writer, which has written nothing. Requires r.flush.
func (r *Recorder) begin() { r.writer, r.seq, r.waiting = rand.Text(), 0, nil }

// Observe counts one evaluation of a key and returns its outcome. Hash is the key's Hash; at is the instant, by the
// store's clock, at which it was judged. Without a candidate, after a completed migration, of a peek, where another check of the list denies, and where a side
// is too young, only the decisions are counted; of the latter also how an enforced candidate does by itself.
func (r *Recorder) Observe(
	key string, hash uint64, at time.Time, o *[2]algorithms.Observation, setting *Setting,
) Outcome {
	outcome := Compare(o).Under(setting.Expected)
	s := &r.stripes[hash&uint64(len(r.stripes)-1)] // a power of two
	s.mu.Lock()
	defer s.mu.Unlock()

	// Decisions are counted for plain limiters, too. Everything below needs two sides.
	for role := range o {
		s.total.Decisions[role].count(&o[role])
	}
	s.total.Enforced[setting.Enforced].count(&o[setting.Enforced])
	if !setting.compares(o) {
		return outcome
	}
	hour, minute := s.minute(at.Unix() / SecondsPerMinute)
	if setting.Young {
		disturb(&minute.Disturbed).Young++
		if setting.Enforced == algorithms.Candidate {
			r.tick(s, at.Unix()/TickSeconds, hash, o, Inconclusive, setting, true)
		}
		return outcome
	}

	// Guessing the cause costs more than counting, and only these two outcomes have one.
	var cause Cause
	if outcome == NewlyDenied || outcome == NewlyAllowed {
		cause = setting.Cause(o, outcome)
	}
	s.total.count(o, outcome, cause)

	shifted := setting.Apart && s.denied.note(hash, o, at, setting, mostDenied/len(r.stripes))
	minute.count(o, outcome, hash, setting, shifted)
	hour.Causes.count(outcome, cause)
	if outcome == Inconclusive {
		hour.Skipped[reasonOf(o)]++
	}
	if setting.Protected {
		hour.CountProtected(key, setting.Enforced, outcome)
	}

	// The fast triggers judge an enforced candidate.
	if setting.Enforced == algorithms.Candidate {
		r.tick(s, at.Unix()/TickSeconds, hash, o, outcome, setting, shifted)
	}

	s.queueHash(KeysSeen, hash)
	for _, kind := range kindsOf[outcome] {
		s.queueHash(kind, hash)
		s.top(kind).add(key)
	}

	return outcome
}

// OneSided counts the cost of a check that a side has missed, or may have missed, where Observe does not see it.
func (r *Recorder) OneSided(hash uint64, at time.Time, role algorithms.Role, cost int64, reason algorithms.SkipReason) {
	r.disturb(hash, at, func(d *Disturbance) { addCost(&d.OneSided[role][reason], cost) })
}

// Settled notes that a check which Observe has counted costs another number in the end.
func (r *Recorder) Settled(hash uint64, at time.Time, outcome Outcome, more int64) {
	s := &r.stripes[hash&uint64(len(r.stripes)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()

	_, minute := s.minute(at.Unix() / SecondsPerMinute)
	minute.AddExtra(outcome, more)
}

// Mark notes that a side was found to have lost what it remembers.
func (r *Recorder) Mark(at time.Time) {
	r.disturb(0, at, func(d *Disturbance) { d.Marks++ })
}

// disturb counts in the minute and the tick of an instant.
func (r *Recorder) disturb(hash uint64, at time.Time, count func(*Disturbance)) {
	s := &r.stripes[hash&uint64(len(r.stripes)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()

	_, minute := s.minute(at.Unix() / SecondsPerMinute)
	count(disturb(&minute.Disturbed))
	if t := s.recent.at(at.Unix() / TickSeconds); t != nil {
		count(disturb(&t.Disturbed))
	}
}

// tick counts for the fast triggers, which look at the last minutes only.
func (r *Recorder) tick(
	s *stripe, unix int64, hash uint64, o *[2]algorithms.Observation, outcome Outcome, setting *Setting, shifted bool,
) {
	// A tick that is older than all of a full list is left out: triggers look at the last minutes.
	t := s.recent.at(unix)
	if t == nil {
		return
	}
	t.count(o, outcome, setting.First)
	if setting.disturbs(o) && !setting.Young {
		disturb(&t.Disturbed).count(o, outcome, setting, shifted)
	}

	// The low bits of the hash have chosen the stripe, so the high ones distinguish the keys of a stripe better.
	key := uint32(hash >> 32)
	alone := setting.Young || o[algorithms.Authoritative].Status != algorithms.Judged
	if c := &o[algorithms.Candidate]; alone && c.Status == algorithms.Judged {
		if c.Decision.Allowed {
			t.Alone[0]++
		} else {
			t.Alone[1]++
			t.Lonely.count(key)
		}
	}
	if shifted {
		return
	}
	switch outcome {
	case NewlyDenied:
		t.Denied.count(key)
		if s.recent.lists(key, unix, mostHarmed/len(r.stripes)) {
			t.Harmed = append(t.Harmed, r.mask.hash(key))
		}
	case NewlyAllowed:
		t.Allowed.count(key)
	}
}

// Totals returns the counts since NewRecorder. It locks one stripe after the other, so requests that are counted
// meanwhile may be in it or not.
func (r *Recorder) Totals() (sum Totals) {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		sum.add(&s.total)
		s.mu.Unlock()
	}
	return sum
}

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
		r.mask.tops(keys.Tops[kind])
		keys.Keys[kind] = keys.Keys[kind][:min(len(keys.Keys[kind]), unsentHashes)]
	}

	minutes := slices.Sorted(maps.Keys(slots))
	for begin := 0; begin == 0 || begin < len(minutes); begin += slotsWritten {
		r.seq++
		b := &Batch{Writer: r.writer, Seq: r.seq}
		for _, minute := range minutes[begin:min(begin+slotsWritten, len(minutes))] {
			s := slots[minute]
			r.mask.slot(s)
			b.Slots = append(b.Slots, *s)
		}
		r.waiting = append(r.waiting, b)
	}
	r.waiting[len(r.waiting)-1].Until = now
	first := r.waiting[0]
	first.Whole, first.Tops, first.Keys = whole, keys.Tops, keys.Keys
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
