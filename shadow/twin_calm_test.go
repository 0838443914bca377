package shadow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// twinTrifles are disturbances of one store that cost no comparison: as soon as one is over, all
// requests are compared again. No side has missed a charge, and no breaker has opened.
var twinTrifles = map[string]func(*twinWorld){
	"one stall fails many requests": func(w *twinWorld) {
		twinSteps["hold"](w, twinStep{span: 70 * time.Millisecond})
		twinSteps["crowd"](w, twinStep{n: 1})
	},
}

func TestTwinsAreComparedAfterTrifles(t *testing.T) {
	for name, do := range twinTrifles {
		t.Run(name, func(t *testing.T) {
			limit := algorithms.Limit{Requests: 100, Window: 10 * twinTick}
			var w *twinWorld
			synctest.Test(t, func(*testing.T) {
				w = newTwinWorld(twinSetting{
					algorithm: algorithms.SlidingWindowLog{}, limits: [2]algorithms.Limit{limit, limit}, instances: 1,
				})
				w.run(nil)
				do(w)
				w.ends.Wait()
				w.requests.Wait()
				w.calmly(time.Millisecond)
				w.end()
			})
			w.check(t, nil)
		})
	}
}

// Sides that forget at different times are compared all the same: the part that is as if unused
// lives, with its number, as long as the other one in another store.
func TestPartsThatEndApartAreCompared(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			window := 10 * twinTick
			setting := twinSetting{
				algorithm: algorithms.FixedWindow{}, other: a, places: [2]twinPlace{inFirst, inSecond}, instances: 1,
				limits: [2]algorithms.Limit{{Requests: 10, Window: window}, twinLimit(a, 10, window)},
			}

			var w *twinWorld
			synctest.Test(t, func(*testing.T) {
				w = newTwinWorld(setting)
				w.run(nil)
				w.calmly(7 * time.Second)
				w.end()
			})
			if len(w.violations) > 0 {
				t.Error(w.violations)
			}
		})
	}
}

// twinApart are the ways in which both sides have each charge at an instant of its own, by the number of the store that
// leads. The sides are then out of phase.
var twinApart = map[string]func(lead int) []twinStep{
	"the leading side's answer is lost": func(lead int) []twinStep {
		return []twinStep{{"mute", lead, 0, 400 * time.Millisecond}, {"requests", 0, 2, 150 * time.Millisecond}, {"wait", 0, 0, time.Second}}
	},
	"the clock of the other side's store is not known": func(lead int) []twinStep {
		return []twinStep{
			{"clock ahead", 1 - lead, 0, 30 * time.Millisecond}, {"kill", 1 - lead, 0, 1500 * time.Millisecond}, {do: "crash"},
			{"wait", 0, 0, 1600 * time.Millisecond}, {"requests", 0, 20, 20 * time.Millisecond},
		}
	},
}

// Sides that had their charges at two instants are not compared until a charge finds both as if unused.
func TestTwinsAtTwoInstants(t *testing.T) {
	for name, steps := range twinApart {
		for _, enforced := range []algorithms.Role{algorithms.Authoritative, algorithms.Candidate} {
			for _, a := range algorithms.All {
				t.Run(name+"/"+enforced.String()+"/"+a.Name(), func(t *testing.T) {
					limit := twinLimit(a, 4, twinTick)
					setting := twinSetting{
						algorithm: a, limits: [2]algorithms.Limit{limit, limit}, places: [2]twinPlace{inFirst, inSecond}, instances: 1,
					}
					if enforced == algorithms.Candidate {
						setting.stage = promotion.Step{Stage: promotion.Promoted}
					}

					// Requests that come close together show where a window ends.
					program := []twinStep{{"requests", 0, 2, 100 * time.Millisecond}}
					program = append(append(program, steps(int(enforced))...), twinStep{"requests", 0, 400, 20 * time.Millisecond})
					var w *twinWorld
					synctest.Test(t, func(*testing.T) { w = runTwins(setting, program) })
					w.check(t, program)
				})
			}
		}
	}
}
