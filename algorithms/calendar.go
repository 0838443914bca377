package algorithms

import (
	"fmt"
	"time"
)

// Calendar is a unit of the calendar, in UTC, as a window.
type Calendar uint8

// The units. A week begins on Monday.
const (
	NoCalendar Calendar = iota // the window has a constant length
	Week
	Month
	Year
)

var calendarNames = [...]string{"", "week", "month", "year"}

const day = 24 * time.Hour

// String returns the name as files write it in the place of a window: week, month or year.
func (c Calendar) String() string {
	if int(c) < len(calendarNames) {
		return calendarNames[c]
	}
	return fmt.Sprintf("calendar %d", uint8(c))
}

// Longest returns the length of the longest window, which the limit's Window must be: 7, 31 or 366 days.
func (c Calendar) Longest() time.Duration {
	switch c {
	case Week:
		return 7 * day
	case Month:
		return 31 * day
	case Year:
		return 366 * day
	}
	return 0
}

// window returns the window of an instant, in microseconds: its beginning, and the beginning of the next one.
func (c Calendar) window(at int64) (start, end int64) {
	if c == Week {
		// The first Monday after the epoch was the fifth of January.
		monday, week := micros(4*day), micros(7*day)
		start = at - floorMod(at-monday, week)
		return start, start + week
	}

	year, month, _ := time.UnixMicro(at).UTC().Date()
	next := month + 1 // time.Date takes the month after December for January
	if c == Year {
		month, next = time.January, time.January+12
	}
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(year, next, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
}

// Period returns the limit's window as ParsePeriod reads it: 1m, or month.
func (l Limit) Period() string {
	if l.Calendar != NoCalendar {
		return l.Calendar.String()
	}
	return FormatWindow(l.Window)
}

// ParsePeriod reads what ParseWindow reads, or a unit of the calendar with the length of its longest window.
func ParsePeriod(s string) (time.Duration, Calendar, error) {
	for c := Week; int(c) < len(calendarNames); c++ {
		if c.String() == s {
			return c.Longest(), c, nil
		}
	}

	window, err := ParseWindow(s)
	return window, NoCalendar, err
}
