package gate

import "math"

// regression returns the alarm of the worst mirror, where the candidate is enforced. A canary is
// put on hold at the alarm and rolled back at twice it; in a promoted candidate a hold would
// change nothing, so it is rolled back at the alarm.
func (j *judgement) regression() (worst Alarm) {
	exposure := j.evidence.Exposure
	if exposure.Since.IsZero() {
		return Alarm{}
	}
	rollBackAt := 2.0 * alarmAt
	if exposure.AllKeys {
		rollBackAt = alarmAt
	}

	for _, r := range byHarm {
		s := &j.streams[r]
		level := Calm
		switch risen := s.risenSince(exposure.Since.Unix() / 60); {
		case risen >= rollBackAt:
			level = RollBack
		case risen >= alarmAt:
			level = Hold
		}
		if level > worst.Level {
			worst = Alarm{Level: level, Reason: s.exceeds(j.accusation(s)) + ": it has risen, which comes by chance once in 90 days"}
		}
	}
	return worst
}

// risenSince returns the mirror's alarm of a stage that began at a minute. A step that was
// forced although a ratio was suspect begins without that suspicion: the operator knew of it.
func (s *stream) risenSince(minute int64) float64 {
	m, begun := unmirrored(), false
	for _, b := range s.against {
		if !begun && b.To > minute {
			if begun = true; m.alarm() >= suspect {
				m = unmirrored()
			}
		}
		m.add(b.ratio, s.threshold, b.weight)
	}
	if !begun && m.alarm() >= suspect {
		return 0
	}
	return m.alarm()
}

// Or returns the alarm that asks for more, the first of two that ask for the same.
func (a Alarm) Or(b Alarm) Alarm {
	b.Harm = math.Max(a.Harm, b.Harm)
	if b.Level > a.Level {
		return b
	}
	a.Harm = b.Harm
	return a
}
