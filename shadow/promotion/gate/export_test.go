package gate

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
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
func WindowOf(cfg Config, ticks []divergence.Tick, now int64, minutes []divergence.Minute, from int64) *Window {
	return &Window{window{cfg: cfg, ticks: ticks, now: now, minutes: minutes, usualUntil: from}}
}

// Harmed asks one trigger, Triggers asks all.
func (w *Window) Harmed() string   { return w.w.harmed() }
func (w *Window) Triggers() string { return w.w.triggers().Reason }

// TriggersInWords are the triggers' numbers as the documentation has them.
func TriggersInWords() []string {
	const second = divergence.TickSeconds
	return []string{
		fmt.Sprintf("`S >= %d`", harmedBy),
		fmt.Sprintf("newly denied is %d p0, at most %g %%, of %d or %d s",
			suddenTimes, 100*suddenMost, aMoment*second, aMinute*second),
		fmt.Sprintf("without the %d clients that it hits most", fewClients),
		fmt.Sprintf("at least %d clients newly denied within ten minutes", suddenKeys),
		fmt.Sprintf("by more than %g %% of `n`, at least %d", 100*overloadShare, overloadFloor),
		fmt.Sprintf("of 3 keys newly allowed within %d minutes", manyMinutes),
		fmt.Sprintf("more than %g %% of the requests, at least %d that fail or %d that are slow",
			100*unwellShare, leastFailed, leastSlow),
		fmt.Sprintf("in each of %d ticks", holdTicks),
		fmt.Sprintf("in each of %d minutes", illMinutes),
		fmt.Sprintf("over %d times the usual (%d s:", usualMargin, aMoment*second),
		fmt.Sprintf("over %d times, for a minute's burst", usualMargin*aMinute/aMoment),
	}
}

// HarmScore is the score of harmed clients.
var HarmScore = harmScore

// Score is the score of blocks with weights, by a threshold.
func Score(x, weights []float64, p0 float64) float64 {
	s := unscored()
	for i := range x {
		s.add(x[i], p0, weights[i])
	}
	return s.value()
}

// Mirror is the alarm and the evidence of the mirror for such blocks.
func Mirror(x, weights []float64, p0 float64) (alarm, evidence float64) {
	m := unmirrored()
	for i := range x {
		m.add(x[i], p0, weights[i])
	}
	return m.alarm(), m.evidence()
}

// Bounds are the ends of the confidence sequence for blocks with denominators.
func Bounds(x, weights []float64, denominators []int64, ratio float64) (lower, upper float64) {
	var s stream
	for i := range x {
		s.blocks = append(s.blocks, block{ratio: x[i], taken: x[i], weight: weights[i], denominator: denominators[i]})
	}
	s.against = s.blocks
	return s.bounds(ratio)
}

// Weigh returns the weights of blocks by their denominators.
func Weigh(denominators []int64) []float64 {
	var w weights
	list := make([]float64, len(denominators))
	for i, n := range denominators {
		list[i] = w.next(n)
	}
	return list
}

// Mark is what the gate says at an instant.
type Mark struct {
	Passes int  // for how many of the steps, from the first on
	Struck bool // three strikes
	Proven bool // the mirror's evidence suffices for a fail
	Risen  bool // the mirror is at its alarm, for a candidate that is exposed all the time
}

// Trace asks the gate at the end of every hour from the beginning of the evidence on. The steps
// need ever more.
func Trace(cfg Config, e Evidence, steps []Step) (marks []Mark) {
	e.Denied = make([]int64, cfg.MinDeniedKeys)
	end := judge(cfg, &e)
	w := newWalk(end)
	for at := end.since + minutesAnHour; at <= end.now; at += minutesAnHour {
		w.advance(at)
		marks = append(marks, w.at.mark(steps))
	}
	return marks
}

func (j *judgement) mark(steps []Step) (m Mark) {
	m.Struck = j.strikes >= mostStrikes
	for i := range j.streams {
		mirror := &j.streams[i].mirror
		m.Risen = m.Risen || mirror.alarm() >= alarmAt
		m.Proven = m.Proven || mirror.evidence() >= enough && j.allHoursSeen()
	}

	for _, step := range steps {
		if verdict := j.tersely().verdictFor(step); verdict != Pass {
			break
		}
		m.Passes++
	}
	return m
}

// verdictFor returns the verdict for another step. The judgement stays as it is, because others go on with it.
func (j *judgement) verdictFor(step Step) string {
	other, e := *j, *j.evidence
	e.Step, other.evidence = step, &e
	other.needed = other.soak() * time.Duration(other.strikes+1)
	verdict, _ := other.verdict()
	return verdict
}

// ProtectedHarmOf asks the rule of protected keys alone: whether an hour is a strike, and its alarm.
func ProtectedHarmOf(cfg Config, e *Evidence) (strike, alarm bool) {
	j := judgement{cfg: cfg, evidence: e, now: e.Now.Unix() / 60, disturbance: &disturbance{}}
	return len(j.protectedHours()) > 0, j.protectedAlarm().Level > Calm
}

// VerdictOf is the verdict of a candidate whose first obstacle is of a kind.
func VerdictOf(kind ObstacleKind) string { return kind.subject().verdict }
