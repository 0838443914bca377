package shadow

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A candidate with half of the limit is compared as before after each disturbance, exactly as in a calm world once all is
// forgotten.
func TestHarmIsSeenAfterEachDisturbance(t *testing.T) {
	for _, arrangement := range twinArrangements {
		for _, a := range []algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.SlidingWindowLog{}, algorithms.GCRA{}} {
			t.Run(arrangement.name+"/"+a.Name(), func(t *testing.T) {
				t.Parallel()
				setting := twinSetting{
					algorithm: a, limits: [2]algorithms.Limit{twinLimit(a, 6, 3*twinWindow), twinLimit(a, 3, 3*twinWindow)},
					places: arrangement.places, instances: 2,
				}
				for _, name := range twinNames() {
					synctest.Test(t, func(t *testing.T) { setting.seesHarm(t, name) })
				}
			})
		}
	}
}

// seesHarm runs one disturbance in traffic of keys that are denied all the time.
func (s twinSetting) seesHarm(t *testing.T, name string) {
	w := newTwinWorld(s)
	defer w.end()
	w.run([]twinStep{
		{"requests", 0, 41, 100 * time.Millisecond},
		{name, 0, 5, 1500 * time.Millisecond},
		{"requests", 0, 41, 100 * time.Millisecond},
	})

	// Each key has more than six requests in one window, of which the candidate denies the
	// last three that the authoritative allows.
	w.rest()
	w.begin()
	before := w.denied()
	w.traffic(context.Background(), twinStep{n: 21, span: 50 * time.Millisecond}, 1)
	w.requests.Wait()
	time.Sleep(time.Second)
	if n := w.denied() - before; n != 9 && w.remote() || n == 0 {
		t.Errorf("%s: afterwards %d requests are newly denied, want 9", name, n)
	}
}

// begin waits until a window begins by the first server's clock.
func (w *twinWorld) begin() {
	now := time.Now()
	if len(w.servers) > 0 {
		now = now.Add(w.servers[0].clock)
	}
	window := w.limits[0].Window
	time.Sleep(window - time.Duration(now.UnixNano())%window)
}

// denied returns how many requests were newly denied.
func (w *twinWorld) denied() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.comparisons {
		if c.Outcome == NewlyDenied {
			n++
		}
	}
	return n
}

// twinStages are steps that move the policy themselves.
var twinStages = map[string]bool{"promote": true, "roll back": true}

// A promoted candidate that denies all is rolled back within a minute, in each disturbance.
func TestCandidateThatDeniesAllIsRolledBack(t *testing.T) {
	for i, arrangement := range twinArrangements {
		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			a := algorithms.All[i%len(algorithms.All)]
			limit := twinLimit(a, 6, 3*twinWindow)
			setting := twinSetting{
				algorithm: a, limits: [2]algorithms.Limit{limit, {Window: limit.Window, Burst: min(1, limit.Burst)}},
				places: arrangement.places, instances: 2,
			}
			for _, name := range twinNames() {
				if twinStages[name] {
					continue
				}
				if took := setting.timeToRollback(t, twinStep{name, 0, 5, 15 * time.Second}); took > time.Minute {
					t.Errorf("%s: enforced for %s, want at most a minute", name, took)
				}
			}
		})
	}
}

// A promoted candidate of half the limit is rolled back in seconds in undisturbed time. Where the sides share a record a
// disturbance delays that by no more than it lasts, and as long again for a breaker that rests.
func TestCandidateOfHalfTheLimitIsRolledBack(t *testing.T) {
	const lasts = 1500 * time.Millisecond
	for i, arrangement := range twinArrangements {
		t.Run(arrangement.name, func(t *testing.T) {
			t.Parallel()
			a := algorithms.All[i%len(algorithms.All)]
			setting := twinSetting{
				algorithm: a, limits: [2]algorithms.Limit{twinLimit(a, 6, 3*twinWindow), twinLimit(a, 3, 3*twinWindow)},
				places: arrangement.places, instances: 2,
			}

			// All clients are at their limit. Where the sides share no record, differences of such a key count once one
			// side has allowed a capacity more than the other, as each instance sees it.
			calm, most := setting.timeToRollback(t, twinStep{do: "wait"}), 25*time.Second
			if !setting.sharesRecord() {
				most = 90 * time.Second
			}
			if calm > most {
				t.Errorf("in a calm world it is enforced for %s, want at most %s", calm, most)
			}
			for _, name := range twinNames() {
				if twinStages[name] || !setting.sharesRecord() {
					continue
				}
				took, most := setting.timeToRollback(t, twinStep{name, 0, 5, lasts}), calm+2*lasts+stages.EvaluateEvery
				if took > most {
					t.Errorf("%s: enforced for %s, want at most %s; in a calm world it takes %s", name, took, most, calm)
				}
			}
		})
	}
}

// timeToRollback returns for how long a harmful candidate is enforced, an hour if it stays so, where the fleet judges by
// itself. The disturbance begins with the promotion, in the traffic of clients that the candidate denies what they are allowed.
func (s twinSetting) timeToRollback(t *testing.T, disturbance twinStep) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newTwinWorld(s)
		defer w.end()
		w.run(nil)
		clients := 0
		ask := func() {
			w.ask(t.Context(), w.someInstance(clients), fmt.Sprint("client-", clients%20), 1)
			clients++
			time.Sleep(100 * time.Millisecond)
		}

		// No process and no side is new any more.
		for end := time.Now().Add(w.memory() + time.Minute); time.Now().Before(end); {
			ask()
		}
		w.exposed = true
		to := stages.Step{Stage: stages.Promoted}
		if _, err := stages.Advance(t.Context(), w.states, twinPolicy, to, stages.Order{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.ends.Go(func() { twinSteps[disturbance.do](w, disturbance) })

		for took = time.Hour; took == time.Hour && time.Since(began) < 2*time.Minute; {
			if ask(); w.rolledBack(t) {
				took = time.Since(began)
			}
		}
		w.requests.Wait()
		w.ends.Wait()
	})
	return took
}

func (w *twinWorld) rolledBack(t *testing.T) bool {
	states, err := w.states.States(t.Context(), []string{twinPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return states[0].Stage == stages.RolledBack
}
