package divergence

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// KeyKind is a group of keys that is counted.
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

// kindsOf are the kinds that a key belongs to by an outcome, besides KeysSeen.
var kindsOf = [outcomes][]KeyKind{
	AgreeDeny:    {KeysDenied},
	NewlyDenied:  {KeysNewlyDenied},
	NewlyAllowed: {KeysDenied, KeysNewlyAllowed},

	ExpectedAllowed: {KeysDenied},
}

// Bounds of what a recorder keeps.
const (
	topSlots   = 64   // per kind and stripe
	sentHashes = 256  // remembered as sent to the ledger, per kind and stripe
	newHashes  = 4096 // waiting for the ledger, per stripe
	openHours  = 4    // kept while the ledger cannot be written
)

// Recorder counts what one instance sees of one policy. Observe may be called
// concurrently and by keys: keys are spread over stripes, each with a lock and
// memory of its own, so requests of different keys rarely meet.
type Recorder struct {
	stripes []stripe
	secret  []byte

	// of Snapshot and Commit alone
	flush       sync.Mutex
	incarnation int64 // counted up when the clock goes back
	closed      int64 // hours before this one are closed
	liveTill    int64 // minute up to which presence is noted
	live        map[int64]uint64
	day         int64
	unsent      [keyKinds][]uint64
}

type stripe struct {
	mu     sync.Mutex
	total  Totals
	hours  []*Hour // in order
	closed int64   // hours before this one are closed
	recent ticking
	tops   [keyKinds]*top
	sent   [keyKinds][sentHashes]uint64
	fresh  [keyKinds][]uint64
	_      [64]byte // keeps the neighbour's lock off this one's cache line
}

// NewRecorder returns an empty recorder. With a secret, keys leave it as HMACs.
func NewRecorder(secret []byte) *Recorder {
	n := 1 << bits.Len(uint(2*runtime.GOMAXPROCS(0)-1))
	return &Recorder{stripes: make([]stripe, min(64, n)), secret: secret, live: map[int64]uint64{}}
}

// StartIncarnation gives an empty recorder the number of its incarnation. Recorders of one instance with different
// numbers write beside each other in the ledger; with the same number the later one overwrites the earlier one's hours.
func (r *Recorder) StartIncarnation(n int64) {
	r.flush.Lock()
	defer r.flush.Unlock()
	r.incarnation = n
}

// Observe counts one evaluation of a key, whose hash must spread well, judged at
// an instant of the store's clock. Without a candidate there is no outcome to
// count, only the decision.
func (r *Recorder) Observe(key string, hash uint64, at time.Time, o *[2]algorithms.Observation, setting *Setting) Outcome {
	outcome := Compare(o).Under(setting.Expected)
	s := &r.stripes[hash%uint64(len(r.stripes))]
	s.mu.Lock()
	defer s.mu.Unlock()
	for role := range o {
		s.total.Decisions[role].count(&o[role])
	}
	if o[algorithms.Candidate].Status == algorithms.Absent || setting.Completed {
		return outcome
	}
	var cause Cause
	if outcome == NewlyDenied || outcome == NewlyAllowed {
		cause = setting.cause(o, outcome)
	}
	s.total.count(o, outcome, cause)
	hour, minute := s.minute(at.Unix() / SecondsPerMinute)
	minute.Count(outcome, hash)
	hour.Causes.count(outcome, cause)
	hour.countCell(setting.Cell, setting.Enforced, outcome)
	if setting.Enforced == algorithms.Candidate && !setting.Warming {
		r.tick(s, at.Unix()/TickSeconds, hash, o, outcome)
	}
	s.queueHash(KeysSeen, hash)
	for _, kind := range kindsOf[outcome] {
		s.queueHash(kind, hash)
		s.top(kind).add(key)
	}
	return outcome
}

// tick counts what is of interest for the next minutes only.
func (r *Recorder) tick(s *stripe, unix int64, hash uint64, o *[2]algorithms.Observation, outcome Outcome) {
	t := s.recent.at(unix)
	if t == nil {
		return
	}
	t.count(o, outcome)
	switch key := uint32(hash >> 32); outcome {
	case NewlyDenied:
		t.Denied.count(key)
		if s.recent.lists(key, unix, mostHarmed/len(r.stripes)) {
			t.Harmed = append(t.Harmed, r.masked(key))
		}
	case NewlyAllowed:
		t.Allowed.count(key)
	}
}

// minute returns the counts of a minute, and of its hour. What comes too late, its hour being
// closed, counts in the oldest open one: a closed hour must not be written again
// with less in it.
func (s *stripe) minute(unix int64) (*Hour, *Minute) {
	if unix/MinutesPerHour < s.closed {
		unix = s.closed * MinutesPerHour
	}
	hour := unix / MinutesPerHour
	i := len(s.hours)
	for i > 0 && s.hours[i-1].Unix > hour {
		i--
	}
	if i > 0 && s.hours[i-1].Unix == hour {
		return s.hours[i-1], s.hours[i-1].at(unix)
	}
	if n := len(s.hours); n >= openHours { // a store whose clock is mad
		return s.hours[n-1], &s.hours[n-1].Minutes[0]
	}
	s.hours = slices.Insert(s.hours, i, &Hour{Unix: hour})
	return s.hours[i], s.hours[i].at(unix)
}

func (s *stripe) top(kind KeyKind) *top {
	if s.tops[kind] == nil {
		s.tops[kind] = newTop(topSlots)
	}
	return s.tops[kind]
}

// queueHash queues a hash for the ledger's count of distinct keys unless it was sent
// of late. Sending one twice does no harm there.
func (s *stripe) queueHash(kind KeyKind, hash uint64) {
	slot := &s.sent[kind][hash>>8%sentHashes]
	if *slot == hash || len(s.fresh[kind]) >= newHashes {
		return
	}
	*slot = hash
	s.fresh[kind] = append(s.fresh[kind], hash)
}

// Totals returns what was counted since NewRecorder.
func (r *Recorder) Totals() (sum Totals) {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		sum.add(&s.total)
		s.mu.Unlock()
	}
	return sum
}
