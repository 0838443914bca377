package divergence

import "slices"

// sampledKeys is how many distinct keys a minute remembers for each ratio: enough to
// tell one client's misfortune from harm to several.
const sampledKeys = 3

// KeySample are up to 3 distinct hashes of keys. With fewer than 3 the set is whole,
// so sets can be joined without losing the answer to "at least 3?".
type KeySample []uint64

// Add puts a hash into the set if there is room.
func (s *KeySample) Add(hash uint64) {
	if len(*s) < sampledKeys && !slices.Contains(*s, hash) {
		*s = append(*s, hash)
	}
}

// Join adds all of another set.
func (s *KeySample) Join(other KeySample) {
	for _, hash := range other {
		s.Add(hash)
	}
}

// AtLeastThree reports whether the set has at least 3 keys.
func (s KeySample) AtLeastThree() bool { return len(s) >= sampledKeys }

// Minute is what was seen in one minute.
type Minute struct {
	// Unix is the minute, counted from the Unix epoch.
	Unix  int64
	Tally Tally
	// Keys are some of the keys in each ratio's numerator.
	Keys [ratios]KeySample
}

// Count adds one outcome of the key with that hash.
func (m *Minute) Count(o Outcome, hash uint64) {
	m.Tally[o]++
	for _, r := range AllRatios {
		if r.counts(o) {
			m.Keys[r].Add(hash)
		}
	}
}

// Join adds what was seen elsewhere in the same minute.
func (m *Minute) Join(other *Minute) {
	m.Tally.Add(other.Tally)
	for r := range m.Keys {
		m.Keys[r].Join(other.Keys[r])
	}
}

// Hour is what one instance saw in one hour so far: the ledger's unit. Writing a
// later Hour over an earlier one of the same instance counts nothing twice.
type Hour struct {
	// Unix is the hour, counted from the Unix epoch.
	Unix int64
	// Minutes with evaluations, in order.
	Minutes []Minute
	// Live has bit i set if the instance was there in the hour's minute i.
	Live uint64
	// Causes of the hour's differences.
	Causes Causes
	// Cells of the keys, by number; those that are not there are empty.
	Cells []Cell
}

// at returns the minute, which it inserts if it is new.
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

// join adds another part of the same hour.
func (h *Hour) join(other *Hour) {
	h.Live |= other.Live
	h.Causes.add(&other.Causes)
	for i := range other.Cells {
		h.cell(i).add(&other.Cells[i])
	}
	for i := range other.Minutes {
		h.at(other.Minutes[i].Unix).Join(&other.Minutes[i])
	}
}
