package evidence

import (
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// sampledKeys is how many distinct keys a minute remembers for each ratio: enough to distinguish the misfortune of one
// client from harm to several.
const sampledKeys = 3

// Evidence is counted in minutes, hours and days from the Unix epoch, whatever the time zone.
const (
	SecondsPerMinute = 60
	MinutesPerHour   = 60
	HoursPerDay      = 24

	MinutesPerDay  = HoursPerDay * MinutesPerHour
	SecondsPerHour = MinutesPerHour * SecondsPerMinute
)

// KeySample is a set of up to 3 hashes of keys. A sample with fewer than 3 is complete, so samples can be joined
// without losing the answer to "at least 3 keys?".
type KeySample []uint64

// Add puts a hash into the sample if there is room.
func (s *KeySample) Add(hash uint64) {
	if len(*s) < sampledKeys && !slices.Contains(*s, hash) {
		*s = append(*s, hash)
	}
}

// Join adds the hashes of another sample. Of more than 3 it keeps the first ones: which keys they are does not matter.
func (s *KeySample) Join(other KeySample) {
	for _, hash := range other {
		s.Add(hash)
	}
}

// AtLeastThree reports whether at least 3 keys were seen.
func (s KeySample) AtLeastThree() bool { return len(s) >= sampledKeys }

// Minute is the outcomes of one minute, of one instance or joined. It is not for concurrent use: in a recorder the
// stripe's lock guards it.
type Minute struct {
	// Unix is the minute, counted from the Unix epoch.
	Unix      int64
	Tally     Tally
	Disturbed *Disturbance
	// Extra is what checks cost beyond 1 each, below 0 where they were settled to nothing, by outcome; nil where all cost 1.
	Extra *Tally
	// Keys samples the keys in the numerator of each ratio up to OfDenials; see Sample.
	Keys [sampledRatios]KeySample
}

// sampledRatios have a sample of their own. ExtraLoad has the numerator of OfDenials.
const sampledRatios = OfDenials + 1

// Cost returns the cost by outcome, of which one may be below 0: see Ratio.Of.
func (m *Minute) Cost() Tally {
	t := m.Tally
	if m.Extra != nil {
		t.Add(*m.Extra)
	}
	return t
}

// AddExtra adds what checks of an outcome cost beyond 1 each.
func (m *Minute) AddExtra(o Outcome, cost int64) {
	if cost == 0 {
		return
	}
	if m.Extra == nil {
		m.Extra = new(Tally)
	}
	m.Extra[o] = boundedCost(m.Extra[o] + boundedCost(cost))
}

// boundedCost keeps a sum of costs within what adds up.
func boundedCost(cost int64) int64 { return max(-mostCost, min(cost, mostCost)) }

// Sample returns the sample of the keys in a ratio's numerator.
func (m *Minute) Sample(r Ratio) *KeySample { return &m.Keys[min(r, OfDenials)] }

// Count adds one outcome of the key with this hash.
func (m *Minute) Count(o Outcome, hash uint64) {
	m.Tally[o]++
	if o.differs() {
		m.sample(o, hash)
	}
}

// count counts a check. The key of a difference that is no evidence against the candidate is not sampled.
func (m *Minute) count(o *[2]algorithms.Observation, outcome Outcome, hash uint64, setting *Setting, shifted bool) {
	if setting.disturbs(o) {
		disturb(&m.Disturbed).count(o, outcome, setting, shifted)
	}
	m.AddExtra(outcome, setting.Cost-1)
	if shifted {
		m.Tally[outcome]++
		return
	}
	m.Count(outcome, hash)
}

// sample remembers the key of a difference.
func (m *Minute) sample(o Outcome, hash uint64) {
	for _, r := range AllRatios[:sampledRatios] {
		if r.counts(o) {
			m.Keys[r].Add(hash)
		}
	}
}

// Join adds the outcomes that another observer saw in the same minute.
func (m *Minute) Join(other *Minute) {
	m.Tally.Add(other.Tally)
	m.Disturbed = m.Disturbed.joined(other.Disturbed)
	if other.Extra != nil {
		for o, cost := range other.Extra {
			m.AddExtra(Outcome(o), cost)
		}
	}
	for r := range m.Keys {
		m.Keys[r].Join(other.Keys[r])
	}
}

// Unshifted returns the minute as it counts against the candidate.
func (m Minute) Unshifted() Minute {
	if d := m.Disturbed; d != nil {
		m.Tally = agreeing(m.Tally, d.Shifted)
		if m.Extra != nil {
			extra := agreeing(*m.Extra, d.ShiftedExtra)
			m.Extra = &extra
		}
	}
	return m
}

// Hour is the counts of one hour: of the fleet, the sum of its slots, or of a stripe.
type Hour struct {
	// Unix is the hour, counted from the Unix epoch.
	Unix int64
	// Minutes with evaluations, in order.
	Minutes []Minute
	// Live has bit i set if the instance was running in the hour's minute i. Without it a quiet minute could not be told
	// from an instance that was down.
	Live uint64
	// Causes of the hour's differences.
	Causes Causes
	// Skipped are the reasons of the hour's inconclusive comparisons.
	Skipped Skips
	// Protected are the keys that the policy protects.
	Protected ProtectedKeys
}

// at returns the minute, which it inserts if it is new. It searches from the end: requests are nearly always of the
// latest minute.
func (h *Hour) at(minute int64) *Minute {
	i := len(h.Minutes)
	for i > 0 && h.Minutes[i-1].Unix > minute {
		i--
	}
	if i > 0 && h.Minutes[i-1].Unix == minute {
		return &h.Minutes[i-1]
	}

	h.Minutes = slices.Insert(h.Minutes, i, Minute{Unix: minute})
	return &h.Minutes[i]
}

// latest returns a minute if it is the latest one with evaluations, otherwise nil.
func (h *Hour) latest(minute int64) *Minute {
	if n := len(h.Minutes); n > 0 && h.Minutes[n-1].Unix == minute {
		return &h.Minutes[n-1]
	}
	return nil
}

// CountProtected counts an outcome of a protected key. Protection knows no exception: a declared difference hurts the client just
// the same.
func (h *Hour) CountProtected(key string, enforced algorithms.Role, o Outcome) {
	switch o {
	case ExpectedDenied:
		o = NewlyDenied
	case ExpectedAllowed:
		o = NewlyAllowed
	}
	if o > NewlyAllowed {
		return // without two answers
	}
	if k := h.Protected.of(key); k != nil {
		k.Counts[enforced][o]++
	}
}
