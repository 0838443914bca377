package divergence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// packedHour is an Hour as it is stored in JSON, minutes by their number in the hour. The hour itself is in the name of
// the key.
type packedHour struct {
	Live    uint64         `json:"live"`
	Minutes []packedMinute `json:"minutes,omitempty"`
	Causes  *Causes        `json:"causes,omitempty"`
	Skipped *Skips         `json:"skipped,omitempty"`

	Protected ProtectedKeys `json:"protected,omitempty"`
}

// packedMinute is a Minute as it is stored. Names have one letter, since an entry has up to 60 of them and is written
// every few seconds.
type packedMinute struct {
	Minute int64                     `json:"m"`
	Tally  Tally                     `json:"t"`
	Keys   *[sampledRatios]KeySample `json:"k,omitempty"`

	Disturbed *Disturbance `json:"d,omitempty"`
}

// packed leaves out empty parts: most minutes have no differences.
func packed(h *Hour) packedHour {
	p := packedHour{Live: h.Live, Minutes: make([]packedMinute, len(h.Minutes))}

	for i := range h.Minutes {
		m := &h.Minutes[i]
		p.Minutes[i] = packedMinute{Minute: m.Unix % MinutesPerHour, Tally: m.Tally, Disturbed: m.Disturbed}

		// Every difference counts in OfComparisons, so without keys there the other ratios have none either.
		if len(m.Keys[OfComparisons]) > 0 {
			p.Minutes[i].Keys = &m.Keys
		}
	}

	p.Protected = h.Protected
	if h.Causes != (Causes{}) {
		p.Causes = &h.Causes
	}
	if h.Skipped != (Skips{}) {
		p.Skipped = &h.Skipped
	}

	return p
}

// mostCounted is the largest count of an entry that is believed. In a minute it is over a thousand million requests a
// second, and thousands of instances in 32 days do not add up to more than a number can hold.
const mostCounted = 1 << 36

// believed reports whether an instance can have counted these. Other programs can write to the ledger, and a count
// below 0, or a sum that overflows, would be a ratio of nothing.
func believed(counts ...int64) bool { return believedUpTo(mostCounted, counts...) }

func believedUpTo(most int64, counts ...int64) bool {
	return !slices.ContainsFunc(counts, func(n int64) bool { return n < 0 || n > most })
}

// unpack checks the numbers that become indexes, and the counts.
func (p *packedHour) unpack(hour int64) (Hour, error) {
	h := Hour{Unix: hour, Live: p.Live & (1<<MinutesPerHour - 1)}

	for _, m := range p.Minutes {
		if m.Minute < 0 || m.Minute >= MinutesPerHour {
			return h, fmt.Errorf("minute %d of an hour", m.Minute)
		}
		if !believed(m.Tally[:]...) {
			return h, fmt.Errorf("counts of %v in a minute", m.Tally)
		}
		if !m.Disturbed.believed() {
			return h, fmt.Errorf("counts of %+v in a minute", *m.Disturbed)
		}

		out := h.at(hour*MinutesPerHour + m.Minute)
		out.Tally, out.Disturbed = m.Tally, m.Disturbed
		if m.Keys != nil {
			out.Keys = *m.Keys
		}
	}

	if p.Causes != nil {
		h.Causes = *p.Causes
	}
	if p.Skipped != nil {
		h.Skipped = *p.Skipped
	}

	if !p.Protected.believed() {
		return h, errors.New("protected keys that cannot be read")
	}
	h.Protected = p.Protected
	return h, nil
}

// packedTick is a Tick as it is stored, the hashes as four bytes each. In base64 a hash takes less than six characters,
// and as a number up to ten.
type packedTick struct {
	Unix   int64  `json:"u"`
	Tally  Tally  `json:"t"`
	Failed int64  `json:"f,omitempty"`
	Slow   int64  `json:"s,omitempty"`
	Harmed []byte `json:"h,omitempty"`

	Denied  Weights `json:"d,omitempty"`
	Allowed Weights `json:"a,omitempty"`

	Disturbed *Disturbance `json:"x,omitempty"`
	Alone     [2]int64     `json:"o,omitzero"`
	Lonely    Weights      `json:"l,omitempty"`
}

// bucketsOf sorts ticks by the entries of the ledger that they belong to.
func bucketsOf(ticks []Tick) map[int64][]packedTick {
	buckets := map[int64][]packedTick{}
	for _, t := range ticks {
		p := packedTick{
			Unix:    t.Unix,
			Tally:   t.Tally,
			Failed:  t.Failed,
			Slow:    t.Slow,
			Denied:  t.Denied,
			Allowed: t.Allowed,

			Disturbed: t.Disturbed, Alone: t.Alone, Lonely: t.Lonely,
		}
		for _, hash := range t.Harmed {
			p.Harmed = binary.LittleEndian.AppendUint32(p.Harmed, hash)
		}

		bucket := bucketOf(t.Unix)
		buckets[bucket] = append(buckets[bucket], p)
	}

	return buckets
}

// unpack reports false for a tick with counts that are not believed.
func (p *packedTick) unpack() (Tick, bool) {
	t := Tick{
		Unix:    p.Unix,
		Tally:   p.Tally,
		Failed:  p.Failed,
		Slow:    p.Slow,
		Denied:  p.Denied,
		Allowed: p.Allowed,

		Disturbed: p.Disturbed, Alone: p.Alone, Lonely: p.Lonely,
	}

	// A list that is cut off loses its last hash only: a trigger works with the rest.
	for h := p.Harmed; len(h) >= 4; h = h[4:] {
		t.Harmed = append(t.Harmed, binary.LittleEndian.Uint32(h))
	}

	return t, believed(t.Tally[:]...) && believed(t.Failed, t.Slow) && believed(t.Alone[:]...) && t.Disturbed.believed()
}
