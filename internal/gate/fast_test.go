package gate_test

import (
	"math"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// fastRules are the simulated triggers: the one of harmed clients alone, and all together.
var fastRules = []string{"harmed", "all"}

// alarms are the seconds of the first alarm by each of fastRules, never if there is
// none.
type alarms [2]int

// watch follows a canary's ticks with the triggers.
type watch struct {
	cfg     gate.Config
	minutes []evidence.Minute
	from    int64 // minute in which the stage began
	ticks   []evidence.Tick
	score   referenceScore
}

func (c canary) watch(traffic *canaryTraffic, goodRate float64) *watch {
	return &watch{
		cfg: configured(c.p0), minutes: c.evidence(traffic.rng, goodRate), from: traffic.unix / ticksAMinute,
		score: referenceScore{p0: c.p0, counted: map[uint32]int64{}},
	}
}

// see takes the next tick.
func (w *watch) see(t evidence.Tick) {
	w.ticks = stillRead(append(w.ticks, t))
	w.score.add(t.Unix, t.Tally.AuthoritativeAllows(), t.Harmed)
}

// mayAlarm knows without the triggers when no trigger of newly denied requests can give an
// alarm, which is nearly always; see TestFastShortcut.
func (w *watch) mayAlarm() bool {
	return w.score.value > gate.HarmedBy-1e-6 || w.rises(2) || w.rises(ticksAMinute)
}

// rises reports whether the last n ticks are a sudden rise, whatever else it takes.
func (w *watch) rises(n int) bool {
	var sum evidence.Tally
	for _, t := range w.ticks[max(0, len(w.ticks)-n):] {
		sum.Add(t.Tally)
	}
	part, whole := evidence.OfAllows.Of(sum)
	return float64(part) >= math.Min(gate.SuddenTimes*w.cfg.NewlyDenied, gate.SuddenMost)*float64(whole)
}

// last is what the controller asks as soon as the last tick is over.
func (w *watch) last() *gate.Window {
	return gate.WindowOf(w.cfg, w.ticks, w.ticks[len(w.ticks)-1].Unix+1, w.minutes, w.from)
}

// alarms returns when the triggers fire within a number of ticks at a rate.
func (w *watch) alarms(traffic *canaryTraffic, times float64, ticks int) alarms {
	first := alarms{never, never}
	for i := range ticks {
		w.see(traffic.next(times))
		if !w.mayAlarm() {
			continue
		}

		l, second := w.last(), evidence.TickSeconds*(i+1)
		if first[0] == never && l.Harmed() != "" {
			first[0] = second
		}
		if first[1] == never && l.Triggers() != "" {
			first[1] = second
		}
		if first[0] != never && first[1] != never {
			break
		}
	}
	return first
}

const goodRate = 0.2 // of the threshold: before a regression, and in the evidence

// falseAlarms returns the seconds of a day's first alarms, at a rate in times the threshold.
func (c canary) falseAlarms(times float64, name string, run int) alarms {
	traffic := c.traffic(seeded(name, run))
	return c.watch(traffic, goodRate).alarms(traffic, times, day*ticksAMinute)
}

// delays returns after how many seconds a regression is noticed, within an hour. Half
// an hour before was as in the evidence.
func (c canary) delays(times float64, name string, run int) alarms {
	traffic := c.traffic(seeded(name, run))
	w := c.watch(traffic, goodRate)
	for range 30 * ticksAMinute {
		w.see(traffic.next(goodRate))
	}

	// Instances write a tick when it ends, and the controller reads it up to 10 s later.
	const longestReading = 10
	found := w.alarms(traffic, times, hour*ticksAMinute)
	for i, second := range found {
		if second != never {
			found[i] = second + longestReading
		}
	}
	return found
}

// The trigger's score is the reference's, tick for tick, whether instances list a
// key once in ten minutes or whenever it is denied.
func TestHarmScoreIsTheReference(t *testing.T) {
	for _, p0 := range thresholds {
		for _, times := range []float64{0.2, 1, 5, 20} {
			c := canary{p0, 10, 300, storms}
			traffic := c.traffic(seeded("score", int(times)))
			reference := referenceScore{p0: p0, counted: map[uint32]int64{}}
			var listed, denied []evidence.Tick

			for range 3 * evidence.FreshTicks {
				tick := traffic.next(times)
				listed = append(listed, tick)
				tick.Harmed = append([]uint32(nil), traffic.denied...)
				denied = append(denied, tick)

				want := reference.add(tick.Unix, tick.Tally.AuthoritativeAllows(), traffic.denied)
				for _, ticks := range [][]evidence.Tick{listed, denied} {
					if got := gate.HarmScore(ticks, p0, tick.Unix+1); math.Abs(got-want) > 1e-6 {
						t.Fatalf("p0 %g, %g times it, tick %d: %g, want %g", p0, times, len(ticks), got, want)
					}
				}
			}
		}
	}
}

// Where the shortcut knows that no trigger gives an alarm, none does.
func TestFastShortcut(t *testing.T) {
	asked := 0
	for _, c := range []canary{
		{0.001, 10, 30, storms}, {0.001, 1, 1000, storms}, {0.02, 10, 100, iid}, {0.02, 1, 1000, bursts},
	} {
		traffic := c.traffic(seeded("shortcut", 1))
		w := c.watch(traffic, goodRate)

		for i := range day * ticksAMinute / 8 {
			times := 1.0
			if i%500 > 450 { // now and then a regression
				times = 8
			}
			w.see(traffic.next(times))

			if reason := w.last().Triggers(); reason != "" {
				if asked++; !w.mayAlarm() {
					t.Fatalf("%+v, tick %d: %s", c, i, reason)
				}
			}
		}
	}

	if asked == 0 {
		t.Error("no alarm at all")
	}
}
