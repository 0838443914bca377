package shadow

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// twinTrifles are disturbances of one store that cost no comparison: as soon as one is over, all
// requests are compared again. No side has missed a charge, and no breaker has opened.
var twinTrifles = map[string]func(*twinWorld){
	"one stall fails many requests": func(w *twinWorld) {
		twinSteps["hold"](w, twinStep{span: 70 * time.Millisecond})
		twinSteps["crowd"](w, twinStep{n: 1})
	},
	"a store has borne its strain": func(w *twinWorld) {
		st := w.instances[0].engine.stores[0]
		for range strainAfter {
			st.strain.note(slog.New(slog.DiscardHandler), context.DeadlineExceeded)
		}

		// A charge is on its way behind its request when the time is over, and the next one of its
		// key must not overtake.
		time.Sleep(strainFor - 50*time.Millisecond)
		w.traffic(context.Background(), twinStep{n: 50, span: 2 * (twinLeast + twinSpread)}, 1)
		w.settle()
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
