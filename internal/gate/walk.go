package gate

import "time"

// mostAsked bounds how often Walk asks: of a longer history it asks hours apart.
const mostAsked = 2000

// Walk returns when each of the steps would have been taken, had each been taken as soon as its conditions were met: at the
// end of an hour, and at least dwell after the one before. It ends with the first step that never would have been. The fleet is taken
// as it is at the end. The configuration has its defaults filled in.
func Walk(cfg Config, e Evidence, steps []Step, dwell time.Duration) (taken []time.Time) {
	j := begin(cfg, &e)
	end := e.Now.Unix() / 60
	first := (j.since/minutesAnHour + 1) * minutesAnHour
	every := minutesAnHour * ((end-first)/minutesAnHour/mostAsked + 1)

	var next time.Time
	for minute := min(first, end); ; minute = min(minute+every, end) {
		at := atMinute(minute)
		for j.advance(minute); len(taken) < len(steps) && !at.Before(next); next = at.Add(dwell) {
			e.Step = steps[len(taken)]
			if j.verdict().Verdict != Pass {
				break
			}
			taken = append(taken, at)
		}
		if minute == end || len(taken) == len(steps) {
			return taken
		}
	}
}

func atMinute(unix int64) time.Time { return time.Unix(unix*60, 0).UTC() }
