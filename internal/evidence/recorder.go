package evidence

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// KeyKind is a group of keys that is counted. A key can be in several.
type KeyKind int

const (
	KeysSeen         KeyKind = iota // all keys
	KeysDenied                      // that the authoritative denied
	KeysNewlyDenied                 // that only the candidate denied
	KeysNewlyAllowed                // that only the authoritative denied
	keyKinds         = iota
)

var keyKindNames = [keyKinds]string{"seen", "denied", "newly_denied", "newly_allowed"}

// String returns the kind's name in Redis.
func (k KeyKind) String() string { return keyKindNames[k] }

// kindsOf are the kinds that a key belongs to by an outcome, besides KeysSeen. A declared difference is no evidence
// against the candidate, so its key is in no kind of differences.
var kindsOf = [outcomes][]KeyKind{
	AgreeDeny:    {KeysDenied},
	NewlyDenied:  {KeysNewlyDenied},
	NewlyAllowed: {KeysDenied, KeysNewlyAllowed},

	ExpectedAllowed: {KeysDenied},
}

// Bounds of a recorder's memory.
const (
	topSlots   = 64   // per kind and stripe
	sentHashes = 256  // remembered as sent to the ledger, per kind and stripe
	newHashes  = 4096 // waiting for the ledger, per stripe
	openHours  = 3    // kept while the ledger cannot be written: it takes what is two hours old
)

// Recorder counts what one instance sees of one policy. All methods may be called concurrently.
//
// Observe is on the path of every request. It spreads keys over stripes, each with a lock and memory of its own, so
// that requests of different keys rarely wait for each other.
type Recorder struct {
	stripes []stripe
	secret  []byte

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

// NewRecorder returns an empty recorder. With a secret, keys leave it as HMACs only.
func NewRecorder(secret []byte) *Recorder {
	// Twice as many stripes as processors, rounded up to a power of two: then two requests rarely need the same lock.
	n := 1 << bits.Len(uint(2*runtime.GOMAXPROCS(0)-1))

	// At most 64, because the hashes that a stripe remembers as sent take 8 KiB alone.
	r := &Recorder{stripes: make([]stripe, min(64, n)), secret: secret, live: map[int64]struct{}{}}
	r.begin()
	return r
}

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
			t.Harmed = append(t.Harmed, r.masked(key))
		}
	case NewlyAllowed:
		t.Allowed.count(key)
	}
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
