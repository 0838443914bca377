package gate

import (
	"math"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// againstBets are the shares that are staked on each hour being above the threshold.
var againstBets = [...]float64{0.1, 0.3, 0.6}

const (
	// timesCap is how many times its threshold a ratio counts for against the candidate.
	timesCap = 20
	// idle is the weight under which an hour does not renew the stake of the regression score: a night with few requests must
	// not make chance likelier.
	idle = 0.2
	// suspect is the regression score from which no step is taken.
	suspect = 24
	// alarmAt is the regression score at which a ratio is taken for risen: as many as hours are in 90 days, the mean time between
	// two false alarms at the threshold.
	alarmAt = 90 * evidence.HoursPerDay
	// proven is the mirrored score at which a ratio is proved to be above its threshold.
	proven = 20
)

// regression sees a candidate that became worse: a Shiryaev-Roberts e-detector for each bet g (Shin, Ramdas and Rinaldo,
// "E-detectors"). It forgets good times. An hour with the ratio x multiplies by 1 + w*g*(min(x, 20 p0)/p0 - 1).
type regression [len(againstBets)]float64

// add takes in one more hour, of n busy hours.
func (r *regression) add(x, p0, n float64) {
	w := math.Max(0, math.Min(1, n))
	stake := 1.0
	if w < idle {
		stake = 0
	}
	for i, g := range againstBets {
		r[i] = math.Min((r[i]+stake)*(1+w*g*(math.Min(x, timesCap*p0)/p0-1)), 1e300)
	}
}

func (r *regression) value() float64 { return (r[0] + r[1] + r[2]) / float64(len(r)) }

// mirrored is the evidence that a ratio is above its threshold: the score the other way round, with a logarithm that is
// concave and proportional to the requests, too. It is at most 1 while the ratio of all requests is at the threshold or below.
type mirrored struct{ product }

func (m *mirrored) add(x, p0, n float64) {
	e := math.Min(x, timesCap*p0)/p0 - 1
	w := weight(n, e > 0)
	for i, g := range againstBets {
		m.product[i] += w * math.Log1p(g*e)
	}
}

// regressed returns the alarm of the worst regression score, where the candidate is enforced. A canary is
// put on hold at the alarm and rolled back at twice it; in a promoted candidate a hold would
// change nothing, so it is rolled back at the alarm.
func (j *judgement) regressed() (worst Alarm) {
	exposure := j.evidence.Exposure
	if exposure.Since.IsZero() {
		return Alarm{}
	}
	rollBackAt := 2.0 * alarmAt
	if exposure.AllKeys {
		rollBackAt = alarmAt
	}

	for i := range j.ratios {
		s := &j.ratios[i]
		level := Calm
		switch risen := s.risenSince(exposure.Since.Unix() / 60); {
		case !s.judged():
		case risen >= rollBackAt:
			level = RollBack
		case risen >= alarmAt:
			level = Hold
		}
		if level > worst.Level {
			worst = Alarm{Level: level, Reason: s.againstText() + ": it has risen, which comes by chance once in 90 days"}
		}
	}
	return worst
}

// risenSince returns the regression score of a stage that began at a minute. A step that was
// forced although the score was too high begins without it: the operator knew of it.
func (s *ratio) risenSince(minute int64) float64 {
	var r regression
	begun := false
	for _, b := range s.against.blocks {
		if !begun && b.To > minute {
			if begun = true; r.value() >= suspect {
				r = regression{}
			}
		}
		r.add(b.ratio, s.threshold, b.busy)
	}
	if !begun && r.value() >= suspect {
		return 0
	}
	return r.value()
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
