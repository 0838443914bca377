package evidence

import (
	"slices"
)

// Span is a stretch of time in minutes since the Unix epoch. To is not included.
type Span struct{ From, To int64 }

// History is what the fleet saw of one policy with one fingerprint.
type History struct {
	// Minutes with evaluations, in order. A minute that is missing had none, or no instance: Live tells them apart.
	Minutes []Minute
	// Live are the spans in which at least one instance was running, in order and with gaps between them.
	Live []Span
	// Hours that are not empty, in order, without their minutes.
	Hours []Hour
	// Distinct keys by KeyKind, of the whole time. It is an estimate, which Reader fills in.
	Distinct [keyKinds]int64
}

// Causes returns the causes of all differences.
func (h *History) Causes() (sum Causes) {
	for i := range h.Hours {
		sum.add(&h.Hours[i].Causes)
	}
	return sum
}

// Skipped returns the reasons of all inconclusive comparisons.
func (h *History) Skipped() (sum Skips) {
	for i := range h.Hours {
		sum.add(&h.Hours[i].Skipped)
	}
	return sum
}

// Total returns the tally of the whole history, without the minutes that were dropped because they are too old.
func (h History) Total() (t Tally) {
	for i := range h.Minutes {
		t.Add(h.Minutes[i].Tally)
	}
	return t
}

// Extra returns what checks cost beyond 1 each in the whole history, by outcome; nil where all cost 1.
func (h *History) Extra() (sum *Tally) {
	for i := range h.Minutes {
		if extra := h.Minutes[i].Extra; extra != nil {
			if sum == nil {
				sum = new(Tally)
			}
			sum.Add(*extra)
		}
	}
	return sum
}

// historyOf returns the history of hours, which are in order. Distinct stays zero.
func historyOf(hours []Hour) History {
	var h History
	for i := range hours {
		hour := hours[i]
		h.Minutes = append(h.Minutes, hour.Minutes...)

		// Live minutes count without traffic, too: time goes on in a quiet hour.
		for m := range int64(MinutesPerHour) {
			if hour.Live>>m&1 == 1 {
				h.extend(hour.Unix*MinutesPerHour + m)
			}
		}
		hour.Minutes, hour.Live = nil, 0
		h.Hours = append(h.Hours, hour)
	}
	return h
}

// extend adds a minute to the live spans. Minutes come in order, so only the last span can grow.
func (h *History) extend(minute int64) {
	if n := len(h.Live); n > 0 && h.Live[n-1].To == minute {
		h.Live[n-1].To++
		return
	}
	h.Live = append(h.Live, Span{minute, minute + 1})
}

// append adds a later part of the same history.
func (h *History) append(later History) {
	h.Minutes = append(h.Minutes, later.Minutes...)
	h.Hours = append(h.Hours, later.Hours...)

	// Spans that meet are one span.
	if n := len(h.Live); n > 0 && len(later.Live) > 0 && h.Live[n-1].To == later.Live[0].From {
		h.Live[n-1].To = later.Live[0].To
		later.Live = later.Live[1:]
	}
	h.Live = append(h.Live, later.Live...)
}

// dropBefore leaves out everything before a minute. An hour that contains the minute stays. Its causes are
// not known by minutes, so they cannot be divided.
func (h *History) dropBefore(minute int64) {
	first := slices.IndexFunc(h.Minutes, func(m Minute) bool { return m.Unix >= minute })
	if first < 0 {
		first = len(h.Minutes)
	}
	h.Minutes = h.Minutes[first:]

	h.Hours = slices.DeleteFunc(h.Hours, func(hour Hour) bool { return (hour.Unix+1)*MinutesPerHour <= minute })

	h.Live = slices.DeleteFunc(h.Live, func(s Span) bool { return s.To <= minute })
	if len(h.Live) > 0 {
		h.Live[0].From = max(h.Live[0].From, minute)
	}
}

// Sum returns a history of the same totals, causes and keys in one minute and one hour. It is for
// display: a judgement needs to know when each of them was.
func (h *History) Sum() History {
	s := History{Distinct: h.Distinct}
	if n := len(h.Minutes); n > 0 {
		s.Minutes = []Minute{{Unix: h.Minutes[n-1].Unix, Tally: h.Total(), Extra: h.Extra()}}
	}
	if n := len(h.Hours); n > 0 {
		s.Hours = []Hour{{Unix: h.Hours[n-1].Unix, Causes: h.Causes(), Skipped: h.Skipped()}}
	}
	return s
}
