package gate

import (
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// mostBlocks is how many more blocks a forecast looks ahead.
const mostBlocks = 2000

// forecast returns when the gate could pass if traffic and ratios stay as they
// were on average; nil if they do not lead there.
func (j *judgement) forecast() *time.Time {
	minutes := float64(j.now - j.evidence.Since.Unix()/60)
	e := j.evidence
	if minutes <= 0 || j.total.Comparisons() == 0 {
		return nil
	}

	// Neither a fleet that is not in order nor lost coverage mends itself with time.
	if e.Live == 0 || len(e.Silent)+len(e.OtherEpoch) > 0 || !covered(j.lastDay()) {
		return nil
	}

	wait := (j.needed - j.clean).Minutes()
	wait = math.Max(wait, more(j.total.AuthoritativeDenies(), j.cfg.MinDenials, minutes))
	wait = math.Max(wait, more(e.History.Distinct[divergence.KeysDenied], j.cfg.MinDeniedKeys, minutes))
	for _, agreed := range [...]divergence.Outcome{divergence.AgreeAllow, divergence.AgreeDeny} {
		wait = math.Max(wait, more(j.total[agreed], 1, minutes))
	}
	wait = math.Max(wait, j.untilSeen())
	for i := range j.streams {
		wait = math.Max(wait, j.untilEnough(&j.streams[i], minutes))
	}

	// A date more than a year ahead says nothing.
	if wait > 365*minutesADay {
		return nil
	}
	ahead := time.Duration(math.Max(0, math.Ceil(wait))) * time.Minute
	at := e.Now.Add(ahead).UTC().Truncate(time.Minute)
	return &at
}

// more returns how long until there are as many as needed, in minutes, at the
// rate so far; infinity without any so far, for which there is no rate.
func more(have, need int64, minutes float64) float64 {
	switch {
	case have >= need:
		return 0
	case have == 0:
		return math.Inf(1)
	}
	return float64(need-have) / (float64(have) / minutes)
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

// untilEnough returns the minutes until a ratio's score suffices, if blocks go on
// with the mean ratio so far.
func (j *judgement) untilEnough(s *stream, minutes float64) float64 {
	if s.score >= enough {
		return 0
	}
	if s.denominator == 0 || s.atOrAbove() {
		return math.Inf(1)
	}

	// A block lasts until it is long enough and full enough, whichever is later.
	filling := float64(leastDenominator(s.threshold)) / (float64(s.denominator) / minutes)
	length := math.Max(j.cfg.Block.Minutes(), filling)

	w, mean := s.wealth, s.raw()
	for n := 1; n <= mostBlocks; n++ {
		if w.add(mean, s.threshold); w.score() < enough {
			continue
		}

		// The open block should have closed by now: blocks do not fill any more as they did.
		first := float64(s.openFrom-j.now) + length
		if first < 0 {
			return math.Inf(1)
		}
		return first + float64(n-1)*length
	}
	return math.Inf(1)
}
