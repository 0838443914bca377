package shadow

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"pgregory.net/rapid"
)

// twinArrangement says where two sides keep their states.
type twinArrangement struct {
	name   string
	places [2]twinPlace // by role
}

// The sides of the first ones share a record, so that one step checks both. Those of the others share none.
var (
	twinsTogether = []twinArrangement{
		{"one store", [2]twinPlace{inFirst, inFirst}},
		{"memory", [2]twinPlace{inMemory, inMemory}},
	}
	twinsApart = []twinArrangement{
		{"two stores", [2]twinPlace{inFirst, inSecond}},
		{"custom and memory", [2]twinPlace{customInMemory, inMemory}},
		{"memory and custom", [2]twinPlace{inMemory, customInMemory}},
		{"custom and store", [2]twinPlace{customApart, inFirst}},
		{"store and custom", [2]twinPlace{inFirst, customApart}},
	}
	twinArrangements = append(append([]twinArrangement(nil), twinsTogether...), twinsApart...)
)

// twinLimit is small, so that keys are often denied.
func twinLimit(a algorithms.Algorithm, requests int64, window time.Duration) algorithms.Limit {
	l := algorithms.Limit{Requests: requests, Window: window, Burst: requests}
	if a.Validate(l) != nil {
		l.Burst = 0
	}
	return l
}

// otherFiles are the deployments that charge one side's part of a record by another file.
var otherFiles = map[string]bool{"another limit": true, "plain limiter": true}

// Two limiters that are the same and share a record never differ, whatever happens to them, and what both have answered is
// compared. (Only a log has a key beside the record. While its slot moves, the enforced side may be checked alone.)
func TestTwinsThatShareARecordDoNotDiffer(t *testing.T) {
	for _, arrangement := range twinsTogether {
		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				setting, program := drawTwins(t, arrangement.places, algorithms.All)
				var w *twinWorld
				rapid.SyncTest(t, func(*rapid.T) { w = runTwins(setting, program) })
				w.checkComparisons()
				w.checkBudgets()
				w.check(t, program)
			})
		})
	}
}

// drawTwins draws two limiters of some algorithm, and what happens to them.
func drawTwins(t *rapid.T, places [2]twinPlace, all []algorithms.Algorithm) (twinSetting, []twinStep) {
	a := rapid.SampledFrom(all).Draw(t, "algorithm")
	window := twinWindow * time.Duration(rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "windows"))
	limit := twinLimit(a, rapid.Int64Range(2, 6).Draw(t, "limit"), window)
	setting := twinSetting{
		algorithm: a, limits: [2]algorithms.Limit{limit, limit}, places: places,
		instances: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "instances"),
	}
	setting.adapts = !setting.custom() && !setting.has(inSynchronized)
	if rapid.Bool().Draw(t, "promoted") {
		setting.stage = stages.Step{Stage: stages.Promoted}
	}

	without := otherFiles
	if _, log := a.(algorithms.SlidingWindowLog); log {
		without = map[string]bool{"another limit": true, "plain limiter": true, "slot moves": true}
	}
	return setting, drawTwinProgram(t, without)
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

// memory is how long a side's state depends on a check.
func (w *twinWorld) memory() time.Duration { return w.instances[0].Pair.policy.Spec.Window }

// rest waits until breakers have closed, which takes requests that try, and all is forgotten.
func (w *twinWorld) rest() {
	for range 2 {
		time.Sleep(36 * time.Second) // a breaker pauses for 30 s, and a fifth
		for range w.instances {
			w.traffic(context.Background(), twinStep{n: len(w.instances), span: time.Second}, 1)
		}
	}
	w.requests.Wait()
	w.rested = time.Now()
	time.Sleep(w.memory() + 2*time.Second)

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
func (w *twinWorld) calm() {
	w.mu.Lock()
	before := len(w.comparisons)
	w.mu.Unlock()

	n := int(3*w.limits[0].Requests) | 1
	w.traffic(context.Background(), twinStep{n: n, span: 50 * time.Millisecond}, 1)
	w.requests.Wait()
	time.Sleep(time.Second)

	compared, outcomes := 0, map[string]int{}
	w.mu.Lock()
	for _, c := range w.comparisons[before:] {
		outcomes[string(c.Outcome)]++
		if c.Outcome == AgreeAllow || c.Outcome == AgreeDeny || c.Differs() && c.Outcome != CandidateError {
			compared++
		}
	}
	w.mu.Unlock()
	if compared != n {
		w.violate("afterwards %d of %d requests are compared: %v", compared, n, outcomes)
	}
}

// checkComparisons holds that both sides answer alike, and that all their answers are evidence.
func (w *twinWorld) checkComparisons() {
	for i := range w.comparisons {
		c := &w.comparisons[i]
		both := c.Observed[0].Status == algorithms.Judged && c.Observed[1].Status == algorithms.Judged
		agree := c.Outcome == AgreeAllow || c.Outcome == AgreeDeny
		if both != agree || c.Outcome == CandidateError {
			w.violate("%s of %s at %s: %s", c.Outcome, c.Key, c.At.Format("05.000000"), twinText(c.Observed))
			return
		}
	}
}

// checkMoves holds that no controller has moved a policy or held it for harm. A candidate that does not answer is held until
// it does: its clients are not harmed by that.
func (w *twinWorld) checkMoves() {
	history, err := w.states.History(context.Background(), twinPolicy)
	if err != nil {
		w.violate("%v", err)
	}
	for i, s := range history {
		var before stages.State
		if i > 0 {
			before = history[i-1]
		}
		harmless := s.Actor == "test" || s.Fingerprint != before.Fingerprint || s.HeldForHealth != before.HeldForHealth
		if !harmless {
			w.violate("moved to %s by %s: %s", s.Describe(), s.Actor, s.Reason)
		}
	}
}

// check holds what has happened against the laws.
func (w *twinWorld) check(t interface{ Fatalf(string, ...any) }, program []twinStep) {
	w.checkCounted()
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
func twinText(o engine.Observations) (text string) {
	for i := range o {
		text += fmt.Sprintf("[%v %v %+v at %s]", o[i].Status, o[i].Err, o[i].Decision, o[i].At.Format("05.000000"))
	}
	return text
}

// checkBudgets holds the admitted requests of each key, in each interval, against the limit
// and what the disturbances around it may add.
func (w *twinWorld) checkBudgets() {
	for key, list := range w.admissions {
		for i := range list {
			sum := int64(0)
			for _, a := range list[i:] {
				sum += a.cost
				span := a.answered.Sub(list[i].asked)
				most := limitertest.UpperBound(w.algorithm.Name(), w.limits[0], span) + w.more(list[i].asked, a.answered)
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

	// A policy that another fingerprint has taken over from returns as it was, when that one has gone.
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
