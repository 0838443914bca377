package shadow

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// twinCounts are what a process was asked, and what it has counted.
type twinCounts struct {
	asked   atomic.Int64 // requests
	left    atomic.Int64 // requests whose client left, in a world with a custom limiter
	noted   atomic.Int64 // evaluations and peeks that the observer saw, and those of clients that left
	without atomic.Int64 // of them, those that count as a decision of neither side
}

func (n *twinCounts) add(c *Comparison) {
	n.noted.Add(1)

	counts := func(o *algorithms.Observation) bool {
		return o.Status == algorithms.Judged || o.Status == algorithms.Failed
	}
	// No custom limiter is asked to look.
	if c.Cost > 0 && !counts(&c.Observed[0]) && !counts(&c.Observed[1]) {
		n.without.Add(1)
	}
}

// checkCounted holds that each process has counted each of its requests once, and as a decision of one side at least. A
// process that crashed has lost what was in its queues.
func (w *twinWorld) checkCounted() {
	for _, in := range w.all {
		n := &in.counted
		if in.process.gone() || !in.twins {
			continue
		}

		// A client that leaves a custom authoritative before its answer is noted by the test alone, all others by both.
		asked, noted, left := n.asked.Load(), n.noted.Load(), n.left.Load()
		if noted < asked || noted > asked+left {
			w.violate("%s was asked %d times, and has counted %d evaluations", in.name, asked, noted)
		}
		if without := n.without.Load(); without > 0 {
			w.violate("%s has counted %d requests as a decision of neither side", in.name, without)
		}
	}
}

// twinOutages are what can keep a check from being judged behind its request.
var twinOutages = map[string]func(*twinWorld){
	"the stores are dead, and a breaker opens": func(w *twinWorld) {
		for i := range w.servers {
			twinSteps["kill"](w, twinStep{on: i, span: 5 * time.Second})
		}
	},
	"the queues are full": func(w *twinWorld) {
		for range 2 {
			twinSteps["crowd"](w, twinStep{n: 12})
		}
	},
	"clients leave": func(w *twinWorld) { twinSteps["clients leave early"](w, twinStep{n: 12}) },
	"the process ends with full queues": func(w *twinWorld) {
		twinSteps["hold"](w, twinStep{on: 1, span: 5 * time.Second})
		twinSteps["crowd"](w, twinStep{n: 6})
		time.Sleep(twinLeast)
		twinSteps["restart"](w, twinStep{})
	},
}

// Every request of a policy with a candidate is counted once, whatever keeps its sides from being judged, and also while the
// side that is not enforced follows behind it.
func TestNoRequestIsLeftUncounted(t *testing.T) {
	limit := algorithms.Limit{Requests: 10, Window: twinWindow}
	for name, begin := range twinOutages {
		for _, arrangement := range twinArrangements {
			for _, stage := range []stages.Stage{stages.Shadow, stages.Promoted} {
				setting := twinSetting{
					algorithm: algorithms.GCRA{}, limits: [2]algorithms.Limit{limit, limit}, places: arrangement.places, instances: 1,
				}
				if stage != stages.Shadow {
					setting.stage = stages.Step{Stage: stage}
				}

				var w *twinWorld
				synctest.Test(t, func(t *testing.T) {
					w = newTwinWorld(setting)
					w.run(nil)
					begin(w)
					w.traffic(t.Context(), twinStep{n: 101, span: 20 * time.Millisecond}, 1)
					w.requests.Wait()
					w.ends.Wait()
					w.end()
				})
				w.checkCounted()
				if len(w.violations) > 0 {
					t.Errorf("%s, %s, %s: %v", name, arrangement.name, stage, w.violations)
				}
			}
		}
	}
}
