package gate

import (
	"fmt"
	"time"
)

// Arrival is when a step could be taken.
type Arrival struct {
	Step Step
	// At is when the gate passes for the step, hour by hour, after the steps before it; nil if it
	// does not.
	At *time.Time
	// Reason is what the step waited for in the last hour before; without a pass, the verdict's
	// sentence at the end of the evidence.
	Reason string
}

// Arrivals returns when each of the steps could be taken, by a configuration with its defaults filled
// in. Each step waits for the one before, and at least for dwell after it. Denied keys are counted as by [Follow].
func Arrivals(cfg Config, e Evidence, steps []Step, dwell time.Duration) []Arrival {
	list := make([]Arrival, len(steps))
	for i, s := range steps {
		list[i].Step = s
	}

	end := judge(cfg, &e)
	w, from := newWalk(end), end.since
	next := 0
	for at := end.since + minutesAnHour; at <= end.now && next < len(list); at += minutesAnHour {
		w.advance(at)
		for ; next < len(list) && at >= from && list[next].arrive(w.at); next++ {
			from = at + max(1, int64(dwell/time.Minute))
			if next+1 < len(list) {
				list[next+1].Reason = fmt.Sprintf("at least %s in the step before", short(dwell))
			}
		}
	}

	// The sentence of the end has a forecast.
	for ; next < len(list); next++ {
		_, list[next].Reason = end.verdictFor(list[next].Step)
	}
	return list
}

// arrive notes the verdict for the step, and reports whether it is pass.
func (a *Arrival) arrive(j *judgement) bool {
	verdict, reason := j.tersely().verdictFor(a.Step)
	if verdict != Pass {
		a.Reason = reason
		return false
	}
	now := j.evidence.Now.UTC()
	a.At = &now
	return true
}

// verdictFor returns the verdict for another step. The judgement stays as it is, because others go on with it.
func (j *judgement) verdictFor(step Step) (verdict, reason string) {
	other, e := *j, *j.evidence
	e.Step, other.evidence = step, &e
	other.needed = other.soak() * time.Duration(other.strikes+1)
	return other.verdict()
}
