package evidence

import (
	"errors"
	"fmt"
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
	Extra  *Tally                    `json:"u,omitempty"`
	Keys   *[sampledRatios]KeySample `json:"k,omitempty"`

	Disturbed *Disturbance `json:"d,omitempty"`
}

// packed leaves out empty parts: most minutes have no differences.
func packed(h *Hour) packedHour {
	p := packedHour{Live: h.Live, Minutes: make([]packedMinute, len(h.Minutes))}

	for i := range h.Minutes {
		m := &h.Minutes[i]
		p.Minutes[i] = packedMinute{Minute: m.Unix % MinutesPerHour, Tally: m.Tally, Extra: m.Extra, Disturbed: m.Disturbed}

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
		if m.Extra != nil {
			for o, cost := range m.Extra {
				out.AddExtra(Outcome(o), cost)
			}
		}
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
