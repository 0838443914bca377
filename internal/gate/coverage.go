package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// leastCoverage is how much of an hour must have been compared for it to count, in percent. Three seconds in which a store
// does not answer are 0.1 % of an hour: they must not cost an hour.
const leastCoverage = 99

// coverageOf returns the share of evaluations that were compared, nil without any.
func coverageOf(t evidence.Tally) *float64 {
	return fraction(t.Comparisons(), t.Comparisons()+t.Uncompared())
}

// fraction returns a share from 0 to 1, nil of nothing: 0 would look like the worst coverage.
func fraction(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}

// covered reports whether enough was compared; nothing at all is enough.
func covered(t evidence.Tally) bool {
	return 100*t.Comparisons() >= leastCoverage*(t.Comparisons()+t.Uncompared())
}

const (
	minutesAnHour = evidence.MinutesPerHour
	minutesADay   = evidence.MinutesPerDay
)

// uncoveredHours returns the hours in which too much could not be compared: they are neither good nor bad evidence,
// because the rest may have differed.
func uncoveredHours(minutes []evidence.Minute) spans {
	hours := map[int64]evidence.Tally{}
	for i := range minutes {
		t := hours[minutes[i].Unix/minutesAnHour]
		t.Add(minutes[i].Tally)
		hours[minutes[i].Unix/minutesAnHour] = t
	}
	var list []evidence.Span
	for hour, t := range hours {
		if !covered(t) {
			list = append(list, evidence.Span{From: hour * minutesAnHour, To: (hour + 1) * minutesAnHour})
		}
	}
	return spansOf(list)
}

// validMinutes counts the minutes between two in which an instance was live and which count. Minutes without requests count: a policy with sparse traffic must be able
// to soak, and the minima see to it that there was some.
func validMinutes(live []evidence.Span, invalid spans, from, to int64) (n int64) {
	for _, s := range live {
		if s = (evidence.Span{From: max(s.From, from), To: min(s.To, to)}); s.From < s.To {
			n += s.To - s.From - invalid.within(s)
		}
	}
	return n
}

// between returns the minutes from one to another, which is not included.
func between(minutes []evidence.Minute, from, to int64) []evidence.Minute {
	byUnix := func(m evidence.Minute, unix int64) int { return cmp.Compare(m.Unix, unix) }
	first, _ := slices.BinarySearchFunc(minutes, from, byUnix)
	end, _ := slices.BinarySearchFunc(minutes, to, byUnix)
	return minutes[first:max(first, end)]
}

func recent(minutes []evidence.Minute, from int64) (t evidence.Tally) {
	for i := len(minutes) - 1; i >= 0 && minutes[i].Unix >= from; i-- {
		t.Add(minutes[i].Tally)
	}
	return t
}

func atMinute(unix int64) time.Time { return time.Unix(unix*60, 0).UTC() }
