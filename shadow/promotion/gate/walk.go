package gate

import (
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// mostAsked bounds how often Walk asks: of a longer history it asks hours apart.
const mostAsked = 2000

// Walk returns when each of the steps would have been taken, had each been taken as soon as its conditions were met: at the
// end of an hour, and at least dwell after the one before. It ends with the first step that never would have been. The fleet is taken
// as it is at the end. The configuration has its defaults filled in.
func Walk(cfg Config, e Evidence, steps []Step, dwell time.Duration) (taken []time.Time) {
	j := begin(cfg, &e)
	end := e.Now.Unix() / 60
	instants := hoursOf([]divergence.Span{{From: j.since, To: end}}, end)
	if len(instants) > mostAsked {
		instants = hoursOf(e.History.Live, end)
	}
	instants = append(instants, end)

	var next time.Time
	every := (len(instants) + mostAsked - 1) / mostAsked
	for i := (len(instants) - 1) % every; i < len(instants); i += every {
		at := atMinute(instants[i])
		for j.advance(instants[i]); len(taken) < len(steps) && !at.Before(next); next = at.Add(dwell) {
			e.Step = steps[len(taken)]
			if j.verdict().Verdict != Pass {
				break
			}
			taken = append(taken, at)
		}
	}
	return taken
}

// hoursOf returns the ends of the hours of some spans before an instant, in order. Hours are complete at their
// ends.
func hoursOf(live []divergence.Span, now int64) (ends []int64) {
	last := int64(math.MinInt64)
	for _, s := range live {
		for end := max(last+minutesAnHour, (s.From/minutesAnHour+1)*minutesAnHour); end < min(now, s.To+minutesAnHour); end += minutesAnHour {
			ends, last = append(ends, end), end
		}
	}
	return ends
}

func atMinute(unix int64) time.Time { return time.Unix(unix*60, 0).UTC() }
