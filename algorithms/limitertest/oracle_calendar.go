package limitertest

import "github.com/shadowlimit/shadowlimit/algorithms"

// The calendar of the oracle goes from year to year and from month to month: slow, and easy to check by reading.

// dayMicros is a day of UTC, which knows no leap second.
const dayMicros = 24 * 3600 * int64(1e6)

// isLeap reports whether a year has 366 days.
func isLeap(year int64) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

// daysOf returns the days of a year.
func daysOf(year int64) int64 {
	if isLeap(year) {
		return 366
	}
	return 365
}

// daysOfMonth returns the days of a month, from 1 to 12.
func daysOfMonth(year int64, month int) int64 {
	if month == 2 && isLeap(year) {
		return 29
	}
	return [...]int64{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// calendarWindow returns the week, month or year of an instant.
func calendarWindow(c algorithms.Calendar, t int64) (start, end int64) {
	if c == algorithms.Week {
		return windowFrom(4*dayMicros, 7*dayMicros, t) // 1970-01-05 was a Monday
	}

	year := int64(1970)
	for start = 0; start > t; {
		year--
		start -= daysOf(year) * dayMicros
	}
	for end = start + daysOf(year)*dayMicros; end <= t; end = start + daysOf(year)*dayMicros {
		start = end
		year++
	}
	if c == algorithms.Year {
		return start, end
	}

	month := 1
	for end = start + daysOfMonth(year, month)*dayMicros; end <= t; end = start + daysOfMonth(year, month)*dayMicros {
		start = end
		month++
	}
	return start, end
}

// shortest returns the length of the shortest window of a limit.
func shortest(l algorithms.Limit) int64 {
	switch l.Calendar {
	case algorithms.Month:
		return 28 * dayMicros
	case algorithms.Year:
		return 365 * dayMicros
	}
	return micros(l)
}
