package gate

import (
	"math"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// What the simulations, which are outside of the package, hold to account.

const (
	HarmedBy    = harmedBy
	SuddenTimes = suddenTimes
	SuddenMost  = suddenMost
)

// Window is the last minutes of a canary.
type Window struct{ w window }

// WindowOf returns the window before a tick, of a stage that began at a minute.
func WindowOf(cfg Config, ticks []evidence.Tick, now int64, minutes []evidence.Minute, from int64) *Window {
	return &Window{window{cfg: cfg, ticks: ticks, now: now, minutes: minutes, usualUntil: from}}
}

// Harmed asks one trigger, Triggers asks all.
func (w *Window) Harmed() string   { return w.w.harmed() }
func (w *Window) Triggers() string { return w.w.triggers().Reason }

// HarmScore is the score of harmed clients.
var HarmScore = harmScore

// Score is the score of blocks, by a threshold.
func Score(x, busy []float64, p0 float64) float64 {
	var s score
	for i := range x {
		s.add(x[i], p0, busy[i])
	}
	return s.mean()
}

// Against is the regression score and the mirrored score of such blocks.
func Against(x, busy []float64, p0 float64) (alarm, proof float64) {
	var r regression
	var m mirrored
	for i := range x {
		r.add(x[i], p0, busy[i])
		m.add(x[i], p0, busy[i])
	}
	return r.value(), m.mean()
}

// Bounds are the ends of the range for such blocks.
func Bounds(x, busy []float64) (lower, upper float64) {
	var s ratio
	for i := range x {
		s.blocks = append(s.blocks, block{ratio: x[i], taken: x[i], busy: busy[i], denominator: math.MaxInt64})
	}
	s.against.blocks = s.blocks
	l, u := s.bounds()
	return *l, *u
}

// Busy returns how busy blocks with denominators are.
func Busy(denominators []int64) []float64 {
	var b busyness
	list := make([]float64, len(denominators))
	for i, n := range denominators {
		list[i] = b.next(n)
	}
	return list
}

// Mark is what the gate says at an instant.
type Mark struct {
	Passes int  // for how many of the steps, from the first on
	Fails  bool // the verdict is fail
	Risen  bool // the regression score is at its alarm, for a candidate that is exposed all the time
}

// Trace asks the gate at the end of every hour from the beginning of the evidence on. The steps
// need ever more.
func Trace(cfg Config, e Evidence, steps []Step) (marks []Mark) {
	j := begin(cfg, &e)
	for at := j.since + minutesAnHour; at <= e.Now.Unix()/60; at += minutesAnHour {
		j.advance(at)
		m := Mark{Fails: j.failure() != ""}
		for i := range j.ratios {
			m.Risen = m.Risen || j.ratios[i].against.regression.value() >= alarmAt
		}
		for _, e.Step = range steps {
			if j.verdict().Verdict != Pass {
				break
			}
			m.Passes++
		}
		marks = append(marks, m)
	}
	return marks
}

// ProtectedHarmOf asks the rule of protected keys alone: whether an hour keeps steps back, and its alarm.
func ProtectedHarmOf(cfg Config, e *Evidence) (kept, alarm bool) {
	j := judgement{cfg: cfg, evidence: e, now: e.Now.Unix() / 60, disturbance: &disturbance{}}
	return len(protectedHours(&j)) > 0, protectedAlarm(&j).Level > Calm
}
