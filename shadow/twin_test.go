package shadow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// twinArrangements are the places of two sides, by what they are called.
var twinArrangements = []struct {
	name   string
	places [2]twinPlace
}{
	{"one store", [2]twinPlace{inFirst, inFirst}},
	{"two stores", [2]twinPlace{inFirst, inSecond}},
	{"memory", [2]twinPlace{inMemory, inMemory}},
	{"foreign and memory", [2]twinPlace{foreignInMemory, inMemory}},
	{"memory and foreign", [2]twinPlace{inMemory, foreignInMemory}},
	{"foreign and store", [2]twinPlace{foreignApart, inFirst}},
	{"store and foreign", [2]twinPlace{inFirst, foreignApart}},
}

// twinLimit is small, so that keys are often denied.
func twinLimit(a algorithms.Algorithm, requests int64, window time.Duration) algorithms.Limit {
	l := algorithms.Limit{Requests: requests, Window: window, Burst: requests}
	if a.Validate(l) != nil {
		l.Burst = 0
	}
	return l
}

// Two limiters that are the same never differ, whatever happens to them.
func TestTwinsDoNotDiffer(t *testing.T) {
	for _, arrangement := range twinArrangements {
		for _, a := range algorithms.All {
			t.Run(arrangement.name+"/"+a.Name(), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					window := twinTick * time.Duration(rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "ticks"))
					limit := twinLimit(a, rapid.Int64Range(2, 6).Draw(t, "limit"), window)
					setting := twinSetting{
						algorithm: a, limits: [2]algorithms.Limit{limit, limit}, places: arrangement.places,
						instances: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "instances"),
					}
					setting.adapts = !setting.foreign()
					if rapid.Bool().Draw(t, "promoted") {
						setting.stage = promotion.Step{Stage: promotion.Promoted}
					}
					var without map[string]bool
					if setting.has(foreignApart) {
						setting.instances, without = 1, twinUnseen
					}
					program := drawTwinProgram(t, without)

					var w *twinWorld
					rapid.SyncTest(t, func(*rapid.T) { w = runTwins(setting, program) })
					w.check(t, program)
				})
			})
		}
	}
}

// runTwins runs a program on twins, and calm traffic after it.
func runTwins(setting twinSetting, program []twinStep) *twinWorld {
	w := newTwinWorld(setting)
	w.run(program)
	w.rest()
	w.calm()
	w.end()
	return w
}

// forgets is how long a side's state depends on a charge.
func (w *twinWorld) forgets() time.Duration {
	now := time.Now().UnixMicro()
	return time.Duration(w.forgotten(now)-now) * time.Microsecond
}

// forgotten is until when a side's state depends on a charge at an instant.
func (w *twinWorld) forgotten(at int64) int64 {
	last := at
	for role, place := range w.places {
		shape := algorithms.TraitsOf(w.algorithm).Shape
		if place == foreignInMemory || place == foreignApart {
			shape = algorithms.UnknownShape
		}
		last = max(last, algorithms.Forgotten(shape, w.limits[role], at))
	}
	return last
}

// rest waits until breakers have closed, which takes requests that try, and all is forgotten.
func (w *twinWorld) rest() {
	for range 2 {
		time.Sleep(breakMost + breakMost/5)
		for range w.instances {
			w.traffic(context.Background(), twinStep{n: len(w.instances), span: time.Second}, 1)
		}
	}
	w.requests.Wait()
	w.rested = time.Now()
	time.Sleep(w.forgets() + 2*time.Second)

	// Redis drops all records that are idle, and not only some of them.
	for i := range w.servers {
		w.change(i, func(server *twinServer) {
			for range 50 {
				server.expire(time.Now().Add(server.clock))
			}
		})
	}
}

// calm sends more requests than the limit allows. All of them are compared.
func (w *twinWorld) calm() { w.calmly(50 * time.Millisecond) }

// calmly is calm with a time from one request to the next.
func (w *twinWorld) calmly(gap time.Duration) {
	w.mu.Lock()
	before := len(w.comparisons)
	w.mu.Unlock()

	n := int(3*w.limits[0].Requests) | 1
	w.traffic(context.Background(), twinStep{n: n, span: gap}, 1)
	w.requests.Wait()
	time.Sleep(time.Second)

	compared, outcomes := 0, map[string]int{}
	w.mu.Lock()
	for _, c := range w.comparisons[before:] {
		outcomes[c.Outcome.String()]++
		if c.Outcome <= divergence.NewlyAllowed {
			compared++
		}
	}
	w.mu.Unlock()
	if compared != n {
		w.violate("afterwards %d of %d requests are compared: %v", compared, n, outcomes)
	}
}

// checkComparisons holds that no difference was counted.
func (w *twinWorld) checkComparisons() {
	for i := range w.comparisons {
		c := &w.comparisons[i]
		// An error of the candidate is a divergence, too. Only a limiter of the user's has errors of its own.
		failed := c.Outcome == divergence.CandidateError && !w.foreign()
		if failed || c.Outcome == divergence.NewlyDenied || c.Outcome == divergence.NewlyAllowed {
			w.violate("%s of %s at %s: %s", c.Outcome, c.Key, c.At.Format("05.000000"), twinText(c.Observed))
			return
		}
	}
}

// checkMoves holds that no controller has moved a policy or held it for harm. A store that goes
// on failing under two sides is a reason to wait, and a candidate that does not answer is one
// to go back: its clients are not harmed by that.
func (w *twinWorld) checkMoves() {
	history, err := w.states.History(context.Background(), twinPolicy)
	if err != nil {
		w.violate("%v", err)
	}
	for _, s := range history {
		harmless := s.Actor == "test" || epochMove(s.Reason) ||
			strings.Contains(s.Reason, "for over 30 s") || strings.Contains(s.Reason, "the candidate fails")
		if !harmless {
			w.violate("moved to %s by %s: %s", s.Describe(), s.Actor, s.Reason)
		}
	}
}

// epochMove reports whether a policy has moved because its instances compare another epoch.
func epochMove(reason string) bool {
	return strings.Contains(reason, "compares epoch") || strings.Contains(reason, "compare epoch")
}

// check holds what has happened against the laws.
func (w *twinWorld) check(t interface{ Fatalf(string, ...any) }, program []twinStep) {
	w.checkComparisons()
	w.checkCounted()
	w.checkBudgets()
	w.checkMoves()

	if len(w.violations) > 0 {
		text := ""
		for _, s := range program {
			text += fmt.Sprintf("\t%s,\n", s)
		}
		t.Fatalf("%s %s in %v, %d instances, stage %q:\n%s%v", w.algorithm.Name(), w.limits[0], w.places,
			w.twinSetting.instances, w.stage.Stage, text, w.violations)
	}
}

// twinText is what two sides have answered.
func twinText(o observations) (text string) {
	for i := range o {
		text += fmt.Sprintf("[%v %v %+v at %s number %d apart %d unused %v]", o[i].Status, o[i].Err, o[i].Decision,
			o[i].At.Format("05.000000"), o[i].Number, o[i].Apart, o[i].Unused)
	}
	return text
}

// checkBudgets holds the admitted requests of each key, in each interval, against the limit
// and what the disturbances around it may add.
func (w *twinWorld) checkBudgets() {
	side := algorithms.Side{Algorithm: w.algorithm, Limit: w.limits[0]}
	for key, list := range w.admissions {
		for i := range list {
			sum := int64(0)
			for _, a := range list[i:] {
				sum += a.cost
				span := a.answered.Sub(list[i].asked)
				if w.has(foreignApart) {
					span += twinTick
				}
				most := limitertest.UpperBound(side.Algorithm.Name(), side.Limit, span) + w.more(list[i].asked, a.answered)
				if sum > most {
					w.violate("%s is allowed %d in %s, want at most %d", key, sum, span, most)
					return
				}
			}
		}
	}
}

// more is what disturbances may add to the limit within an interval.
func (w *twinWorld) more(from, to time.Time) (sum int64) {
	early := from.Add(-2 * w.limits[0].Window)
	for _, at := range w.lost {
		if at.After(early) && at.Before(to) {
			sum += w.limits[0].Capacity()
		}
	}

	// A policy that another epoch has displaced returns as it was, when its votes have won again.
	for _, at := range w.deployed {
		if at.Before(to) {
			sum += w.limits[0].Capacity()
		}
	}

	// Each process has a local limiter. Where the sides lie apart, one may stand in for the
	// other one that fails, and does not know all that the other has admitted.
	for _, since := range w.away {
		if !w.rested.After(early) || !since.Before(to) {
			continue
		}
		more := int64(len(w.all))
		if w.places[0] != w.places[1] {
			more++
		}
		return sum + more*limitertest.UpperBound(w.algorithm.Name(), w.limits[0], to.Sub(from))
	}
	return sum
}
