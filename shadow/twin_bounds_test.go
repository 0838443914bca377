package shadow

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// twinFree are the disturbances that allow a key nothing beyond its limit. In a random program others beside them may,
// so each stands alone here.
var twinFree = []struct {
	name     string
	places   [2]twinPlace
	steps    []twinStep
	happened func(*twinWorld) bool // nil where the step itself does what it says
}{
	{"SCRIPT FLUSH", [2]twinPlace{inFirst, inFirst}, []twinStep{{do: "script flush"}}, func(w *twinWorld) bool {
		return !w.servers[0].forgot
	}},
	{"slot migration", [2]twinPlace{inFirst, inFirst}, []twinStep{{do: "slot moves", span: 10 * time.Second}}, func(w *twinWorld) bool {
		return w.servers[0].reduced > 0 || w.algorithm != algorithms.SlidingWindowLog{}
	}},
	{"queue full", [2]twinPlace{inFirst, inSecond}, []twinStep{{do: "crowd", n: 12}, {do: "crowd", n: 12}}, (*twinWorld).queueWasFull},
	{"reload", [2]twinPlace{inFirst, inSecond}, []twinStep{{do: "reload"}, {do: "reload", n: 1}}, nil},
	{"crash of an instance", [2]twinPlace{inFirst, inSecond}, []twinStep{{do: "crash"}}, nil},
	{"rolling deployment", [2]twinPlace{inFirst, inSecond}, []twinStep{{do: "restart"}, {do: "restart", n: 1}}, nil},
}

// What disturbances beside each other allow a key is bounded, too, where the sides share no record.
func TestTwinsApartKeepTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setting, program := drawTwins(t, rapid.SampledFrom(twinsApart).Draw(t, "arrangement").places, algorithms.All)
		var w *twinWorld
		rapid.SyncTest(t, func(*rapid.T) { w = runTwins(setting, program) })
		w.checkBudgets()
		w.check(t, program)
	})
}

func TestTwinsKeepTheLimit(t *testing.T) {
	for _, tt := range twinFree {
		for _, a := range algorithms.All {
			for _, stage := range []stages.Stage{"", stages.Promoted} {
				t.Run(tt.name+"/"+a.Name()+"/"+string(stage), func(t *testing.T) {
					limit := twinLimit(a, 6, twinWindow)
					setting := twinSetting{
						algorithm: a, limits: [2]algorithms.Limit{limit, limit}, places: tt.places, instances: 2,
						stage: stages.Step{Stage: stage},
					}

					program := []twinStep{{do: "saturate"}}
					program = append(append(program, tt.steps...), twinStep{do: "saturate"})
					var w *twinWorld
					synctest.Test(t, func(*testing.T) { w = runTwins(setting, program) })
					w.checkBudgets()
					w.check(t, program)
					if tt.happened != nil && !tt.happened(w) {
						t.Error("the disturbance has disturbed nothing")
					}
				})
			}
		}
	}
}

// queueWasFull reports whether a check found no room in the queue.
func (w *twinWorld) queueWasFull() bool {
	for _, c := range w.comparisons {
		for _, o := range c.Observed {
			if o.Status == algorithms.Skipped && o.Reason == algorithms.QueueFull {
				return true
			}
		}
	}
	return false
}
