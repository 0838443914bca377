package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Presence is when a log has lines. The zero value is a log without any.
//
// Time without a line for over an hour is a hole: the log does not say whether the service ran. It is not seen time,
// unless the service is idle then: on most other days the same hours have no line either.
type Presence struct {
	lines map[int64]int64 // by minute since the Unix epoch
}

// Add counts a line of an instant in microseconds since the Unix epoch.
func (p *Presence) Add(at int64) {
	if p.lines == nil {
		p.lines = map[int64]int64{}
	}
	p.lines[time.UnixMicro(at).Unix()/evidence.SecondsPerMinute]++
}

const (
	anHour = evidence.MinutesPerHour
	aDay   = evidence.MinutesPerDay
	// fewLines is how many lines a day must have, as a share of those of the busiest day, to say anything about
	// other days: a day of one stray line is no day on which the service was idle.
	fewLines = 0.01
)

// Stretches are the live spans of a log, its holes, and the hours of the day in which it is idle.
type Stretches struct {
	Live, Holes []evidence.Span
	Idle        [24]bool
	early       int64 // lines before the year 2000
}

// Stretches returns the stretches of the log.
func (p *Presence) Stretches() (s Stretches) {
	minutes := slices.Sorted(maps.Keys(p.lines))
	if len(minutes) == 0 {
		return s
	}
	d := p.days(minutes)
	live := func(from, to int64) {
		if n := len(s.Live); n > 0 && s.Live[n-1].To == from {
			s.Live[n-1].To = to
			return
		}
		s.Live = append(s.Live, evidence.Span{From: from, To: to})
	}

	before := minutes[0]
	for _, m := range minutes {
		if m < year2000 {
			s.early += p.lines[m]
		}
		if m-before-1 > anHour {
			d.split(evidence.Span{From: before + 1, To: m}, &s, live)
		} else if m > before {
			live(before+1, m)
		}
		live(m, m+1)
		before = m
	}
	return s
}

// year2000 is in minutes since the Unix epoch: no older log is of a service, but of a clock that was not set.
var year2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / evidence.SecondsPerMinute

// days are the hours in which a log has lines, by day since the Unix epoch. Days with few lines are left out.
type days struct {
	hours       map[int64]*[24]bool
	first, last int64 // minutes of the log
}

func (p *Presence) days(minutes []int64) days {
	lines, busiest := map[int64]int64{}, int64(0)
	for m, n := range p.lines {
		lines[m/aDay] += n
		busiest = max(busiest, lines[m/aDay])
	}

	d := days{map[int64]*[24]bool{}, minutes[0], minutes[len(minutes)-1]}
	for _, m := range minutes {
		if day := m / aDay; float64(lines[day]) >= fewLines*float64(busiest) {
			if d.hours[day] == nil {
				d.hours[day] = &[24]bool{}
			}
			d.hours[day][m%aDay/anHour] = true
		}
	}
	return d
}

// split divides a time without lines into live time, because the service is idle, and holes.
func (d days) split(gap evidence.Span, s *Stretches, live func(from, to int64)) {
	// A day and more is a hole whatever other days are like: it may be years after a stray line.
	if gap.To-gap.From >= aDay {
		s.hole(gap)
		return
	}

	for from := gap.From; from < gap.To; from = (from/anHour + 1) * anHour {
		to := min(gap.To, (from/anHour+1)*anHour)
		if d.idle(from / anHour) {
			s.Idle[from/anHour%24] = true
			live(from, to)
		} else {
			s.hole(evidence.Span{From: from, To: to})
		}
	}
}

// hole adds a hole, to the last one if they meet.
func (s *Stretches) hole(h evidence.Span) {
	if n := len(s.Holes); n > 0 && s.Holes[n-1].To == h.From {
		s.Holes[n-1].To = h.To
		return
	}
	s.Holes = append(s.Holes, h)
}

// idle reports whether an hour since the Unix epoch has no line on most other days of the log.
func (d days) idle(hour int64) bool {
	if d.hours[hour/24] == nil {
		return false
	}
	empty, all := 0, 0
	for day, seen := range d.hours {
		at := day*24 + hour%24
		if at == hour || at*anHour < d.first || (at+1)*anHour > d.last {
			continue
		}
		if all++; !seen[hour%24] {
			empty++
		}
	}
	return 2*empty > all
}

// shownHoles is how many holes a warning names.
const shownHoles = 3

// Warnings says what of the log's times looks wrong.
func (s *Stretches) Warnings() (list []string) {
	if s.early > 0 {
		list = append(list, fmt.Sprintf("%s of before the year 2000, of a clock that was not set: remove them, or check --time-field",
			humanize.Counted(s.early, "line")))
	}

	if n := len(s.Holes); n > 0 {
		var all int64
		var named []string
		for i, h := range s.Holes {
			all += h.To - h.From
			if i < shownHoles {
				named = append(named, fmt.Sprintf("%s to %s", stamp(h.From), stamp(h.To)))
			}
		}
		text := strings.Join(named, ", ")
		if n > shownHoles {
			text += fmt.Sprintf(", and %d more", n-shownHoles)
		}
		list = append(list, fmt.Sprintf("no line for over an hour, so no evidence, for %s in all: %s (UTC)",
			humanize.Span(time.Duration(all)*time.Minute), text))
	}

	var idle []string
	for hour, yes := range s.Idle {
		if yes {
			idle = append(idle, fmt.Sprintf("%02d", hour))
		}
	}
	if len(idle) > 0 {
		list = append(list, "idle hours, without lines on most days, are taken for seen (UTC): "+strings.Join(idle, " "))
	}
	return list
}

func stamp(minute int64) string { return time.Unix(minute*60, 0).UTC().Format("2006-01-02 15:04") }
