package shadow

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// A promoted candidate of half the limit is rolled back beside each disturbance as fast as in a calm world: later by
// no more than the disturbance itself lasts, as long again for a breaker that rests, and, if it has made keys blind,
// the time until they have forgotten that.
func TestHarmIsRolledBackBesideEachDisturbance(t *testing.T) {
	const lasts, judgedEvery = 1500 * time.Millisecond, time.Second

	for i, arrangement := range twinArrangements {
		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			a := algorithms.All[i%len(algorithms.All)]
			setting := twinSetting{
				algorithm: a, limits: [2]algorithms.Limit{twinLimit(a, 6, 3*twinTick), twinLimit(a, 3, 3*twinTick)},
				places: arrangement.places, instances: 2,
			}

			calm, _ := setting.timeToRollback(t, twinStep{do: "wait"})
			for _, name := range twinNames() {
				if name == "promote" || name == "roll back" {
					continue
				}
				took, w := setting.timeToRollback(t, twinStep{name, 0, 5, lasts})
				most := calm + 2*lasts + judgedEvery
				if w.count(divergence.Blind) > 0 {
					most += time.Duration(w.forgotten(0)) * time.Microsecond
				}
				if took > most {
					t.Errorf("%s: rolled back after %s, want at most %s; in a calm world it takes %s", name, took, most, calm)
				}
			}
		})
	}
}

// timeToRollback returns for how long a harmful candidate is enforced, an hour if it stays so. The disturbance begins
// with the promotion, in the traffic of clients that the candidate denies half of what they are allowed.
func (s twinSetting) timeToRollback(t *testing.T, disturbance twinStep) (took time.Duration, w *twinWorld) {
	synctest.Test(t, func(t *testing.T) {
		w = newTwinWorld(s)
		defer w.end()
		clients := make([]string, 20)
		for i := range clients {
			clients[i] = fmt.Sprint("client-", i)
			w.turns[clients[i]] = make(chan struct{}, 1)
		}

		w.run(nil)
		w.exposed = true
		to := promotion.Step{Stage: promotion.Promoted}
		if _, err := promotion.Advance(t.Context(), w.states, twinPolicy, to, promotion.Order{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.ends.Go(func() { twinSteps[disturbance.do](w, disturbance) })

		for took = time.Hour; took == time.Hour && time.Since(began) < time.Minute; {
			for i, client := range clients {
				w.ask(t.Context(), w.someInstance(i), client, 1)
				time.Sleep(time.Second / time.Duration(len(clients)))
			}
			if w.judge(); w.rolledBack(t) {
				took = time.Since(began)
			}
		}
		w.requests.Wait()
		w.ends.Wait()
	})
	return took, w
}

// judge has every process write what it has seen and judge it now. By themselves they do so at instants that are
// spread by chance.
func (w *twinWorld) judge() {
	for _, in := range slices.Clone(w.instances) {
		_ = in.fleet.sync(context.Background())
	}
}

func (w *twinWorld) rolledBack(t *testing.T) bool {
	states, err := w.states.States(t.Context(), []string{twinPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Stage == promotion.RolledBack
}
