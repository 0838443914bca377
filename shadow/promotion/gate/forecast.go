package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// mostBlocks is how many more blocks a forecast looks ahead.
const mostBlocks = 2000

// delay is how far away one condition of a pass is.
type delay struct {
	minutes float64
	of      string // what takes that long
	unknown string // why that cannot be said; the minutes are then infinite
}

// never returns the delay of a condition whose time cannot be said.
func never(format string, args ...any) delay {
	return delay{minutes: math.Inf(1), unknown: fmt.Sprintf(format, args...)}
}

// forecast returns when the gate could pass if traffic and ratios stay as they were on
// average. If that cannot be said, it returns nil and the reason.
func (j *judgement) forecast() (at *time.Time, unknown string) {
	// What needs an operator or a developer does not mend itself with time.
	for i, o := range j.obstacles() {
		switch {
		case o.Waits():

		// The reason names the first obstacle only. A ratio behind it is named here.
		case o.Kind == AboveThreshold && i > 0:
			return nil, unforeseeable[o.Kind] + ": " + o.Text
		default:
			return nil, unforeseeable[o.Kind]
		}
	}

	// The forecast extrapolates scores, which the simple rule does not have.
	minutes := float64(j.now - j.evidence.Since.Unix()/60)
	switch {
	case j.cfg.Rule == Simple:
		return nil, "the simple rule has no scores to extrapolate"
	case minutes <= 0:
		return nil, "the evidence is less than a minute old"
	}

	// A date more than a year ahead says nothing.
	last := j.last(minutes)
	switch {
	case last.unknown != "":
		return nil, last.unknown
	case last.minutes > 365*minutesADay:
		return nil, last.of + " would take more than a year at the rate so far"
	}
	ahead := time.Duration(math.Max(0, math.Ceil(last.minutes))) * time.Minute
	instant := j.evidence.Now.Add(ahead).UTC().Truncate(time.Minute)
	return &instant, ""
}

// last returns the delay of the condition that will be met last.
func (j *judgement) last(minutes float64) delay {
	all := []delay{
		{minutes: (j.needed - j.clean).Minutes(), of: "the clean time"},
		more(j.total.AuthoritativeDenies(), j.cfg.MinDenials, minutes, "requests that the authoritative denies"),
		more(j.evidence.History.Distinct[divergence.KeysDenied], j.cfg.MinDeniedKeys, minutes, "keys that the authoritative denies"),
		more(j.total[divergence.AgreeAllow], 1, minutes, "requests that both sides allow"),
		more(j.total[divergence.AgreeDeny], 1, minutes, "requests that both sides deny"),
		{minutes: j.untilSeen(), of: "the hours of the day"},
	}
	for i := range j.streams {
		all = append(all, j.untilEnough(&j.streams[i], minutes))
	}
	return slices.MaxFunc(all, func(a, b delay) int { return cmp.Compare(a.minutes, b.minutes) })
}

// more returns how long until there are as many as needed, at the rate so far. Without any
// so far there is no rate.
func more(have, need int64, minutes float64, what string) delay {
	switch {
	case have >= need:
		return delay{}
	case have == 0:
		return never("there are no %s yet, so their rate is unknown", what)
	}
	return delay{minutes: float64(need-have) / (float64(have) / minutes), of: "enough " + what}
}

// untilSeen returns the minutes until every hour of the day was seen for half of it.
func (j *judgement) untilSeen() (wait float64) {
	for hour, seen := range j.seen {
		if seen {
			continue
		}

		// An hour counts as seen after its first half, and comes again within a day.
		half := int64(hour)*minutesAnHour + minutesAnHour/2
		ahead := (half - j.now%minutesADay + minutesADay) % minutesADay
		wait = math.Max(wait, float64(ahead))
	}
	return wait
}

// untilEnough returns how long until a ratio's score suffices, if blocks go on with the mean
// ratio so far.
func (j *judgement) untilEnough(s *stream, minutes float64) delay {
	if s.score >= enough {
		return delay{}
	}
	if s.denominator == 0 {
		return never("%s cannot be measured yet", s.ratio)
	}

	// A block lasts until it is long enough and full enough, whichever is later.
	filling := float64(leastDenominator(s.threshold)) / (float64(s.denominator) / minutes)
	length := math.Max(j.cfg.Block.Minutes(), filling)

	w, mean := s.wealth, s.taken()
	for n := 1; n <= mostBlocks; n++ {
		if w.add(mean, s.threshold); w.score() < enough {
			continue
		}

		// The open block should have closed by now: blocks do not fill any more as they did.
		first := float64(s.openFrom-j.now) + length
		if first < 0 {
			return never("the current block of %s should have closed already: its traffic has become rarer", s.ratio)
		}
		return delay{minutes: first + float64(n-1)*length, of: fmt.Sprintf("the score of %s", s.ratio)}
	}

	return never("%s is so close to its threshold that its score does not reach %d "+
		"(change the candidate or raise the threshold)", s.ratio, enough)
}
