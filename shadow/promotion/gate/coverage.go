package gate

import (
	"cmp"
	"slices"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// An hour counts within these bounds, in percent. Three seconds in which a store does not
// answer are 0.1 % of an hour: they must not cost an hour of clean time.
const (
	// leastCoverage is how much must have been compared, of all that is not blind.
	leastCoverage = 99
	// mostBlind is how much of all charges with a candidate may be blind.
	mostBlind = 10
)

// coverageOf returns the share of evaluations that were compared, nil without any. A blind
// one is left out: its sides have answered, and no store or limiter is at fault.
func coverageOf(t divergence.Tally) *float64 {
	return fraction(t.Comparisons(), t.Comparisons()+t.Uncompared())
}

// blindOf returns the share of evaluations that were blind, nil without any.
func blindOf(t divergence.Tally) *float64 { return fraction(t[divergence.Blind], t.Evaluations()) }

// fraction returns a share from 0 to 1, nil of nothing: 0 would look like the worst coverage.
func fraction(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}

// covered reports whether enough was compared; nothing at all is enough.
func covered(t divergence.Tally) bool {
	return 100*t.Comparisons() >= leastCoverage*(t.Comparisons()+t.Uncompared())
}

// mostlyBlind reports whether so much was blind that the rest may not be like it: the keys
// that had charges on one side only are those with the most traffic.
func mostlyBlind(t divergence.Tally) bool { return 100*t[divergence.Blind] > mostBlind*t.Evaluations() }

const (
	minutesAnHour = divergence.MinutesPerHour
	minutesADay   = divergence.MinutesPerDay
)

// validMinutes leaves out the hours in which too much could not be compared or was blind:
// they are neither good nor bad evidence, because the rest may have differed. It also
// returns those hours.
func validMinutes(minutes []divergence.Minute) ([]divergence.Minute, map[int64]bool) {
	hours := map[int64]divergence.Tally{}
	for i := range minutes {
		t := hours[minutes[i].Unix/minutesAnHour]
		t.Add(minutes[i].Tally)
		hours[minutes[i].Unix/minutesAnHour] = t
	}
	invalid := map[int64]bool{}
	for hour, t := range hours {
		if !covered(t) || mostlyBlind(t) {
			invalid[hour] = true
		}
	}

	if len(invalid) == 0 {
		return minutes, invalid
	}
	valid := slices.DeleteFunc(slices.Clone(minutes), func(m divergence.Minute) bool {
		return invalid[m.Unix/minutesAnHour]
	})
	return valid, invalid
}

// cleanMinutes counts the minutes between two in which an instance was live and enough could
// be compared. Minutes without requests count: a policy with sparse traffic must be able
// to soak, and the minima see to it that there was some.
func cleanMinutes(live []divergence.Span, invalid map[int64]bool, from, to int64) (n int64) {
	for _, s := range live {
		n += max(0, min(s.To, to)-max(s.From, from))
	}
	for hour := range invalid {
		for _, s := range live {
			n -= max(0, min(s.To, to, (hour+1)*minutesAnHour)-max(s.From, from, hour*minutesAnHour))
		}
	}
	return n
}

// seenIn returns the hours of the day, and the weekdays, in UTC, in which instances were live
// for at least half of the minutes on some day.
func seenIn(live []divergence.Span, invalid map[int64]bool) (hours [24]bool, weekdays [7]bool) {
	minutes, daily := map[int64]int64{}, map[int64]int64{}
	for _, s := range live {
		for hour := s.From / minutesAnHour; hour*minutesAnHour < s.To; hour++ {
			if !invalid[hour] {
				n := min(s.To, (hour+1)*minutesAnHour) - max(s.From, hour*minutesAnHour)
				minutes[hour] += n
				daily[hour/24] += n
			}
		}
	}

	for hour, n := range minutes {
		hours[hour%24] = hours[hour%24] || n >= minutesAnHour/2
	}
	for day, n := range daily {
		weekday := atMinute(day * minutesADay).Weekday()
		weekdays[weekday] = weekdays[weekday] || n >= minutesADay/2
	}
	return hours, weekdays
}

// between returns the minutes from one to another, which is not included.
func between(minutes []divergence.Minute, from, to int64) []divergence.Minute {
	byUnix := func(m divergence.Minute, unix int64) int { return cmp.Compare(m.Unix, unix) }
	first, _ := slices.BinarySearchFunc(minutes, from, byUnix)
	end, _ := slices.BinarySearchFunc(minutes, to, byUnix)
	return minutes[first:max(first, end)]
}

func recent(minutes []divergence.Minute, from int64) (t divergence.Tally) {
	for i := len(minutes) - 1; i >= 0 && minutes[i].Unix >= from; i-- {
		t.Add(minutes[i].Tally)
	}
	return t
}
