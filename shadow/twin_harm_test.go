package shadow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// A candidate with half of the limit is found in spite of each disturbance: soon after it, while
// its keys are denied all the time, and exactly as in a calm world once all is forgotten.
func TestHarmIsFoundAfterEachDisturbance(t *testing.T) {
	for _, arrangement := range twinArrangements {
		for _, a := range []algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.SlidingWindowLog{}, algorithms.GCRA{}} {
			t.Run(arrangement.name+"/"+a.Name(), func(t *testing.T) {
				t.Parallel()
				limit := twinLimit(a, 6, 3*twinTick)
				setting := twinSetting{
					algorithm: a, limits: [2]algorithms.Limit{limit, twinLimit(a, 3, 3*twinTick)},
					places: arrangement.places, instances: 2,
				}

				for _, name := range twinNames() {
					if setting.has(foreignApart) && twinUnseen[name] {
						continue
					}
					setting.mustFind(t, name)
					if setting.foreign() {
						setting.inDisguise().mustFind(t, name)
					}
				}
			})
		}
	}
}

// inDisguise has the file give both sides one limit, by which the foreign limiter does not go.
func (s twinSetting) inDisguise() twinSetting {
	foreign := algorithms.Authoritative
	if s.places[foreign] != foreignInMemory && s.places[foreign] != foreignApart {
		foreign = algorithms.Candidate
	}
	s.unlike = s.limits[foreign]
	s.limits[foreign] = s.limits[foreign.Other()]
	return s
}

func (s twinSetting) mustFind(t *testing.T, name string) {
	var w *twinWorld
	synctest.Test(t, func(*testing.T) { w = runHarm(s, name) })
	if len(w.violations) > 0 {
		t.Errorf("%s, the file gives limits %v: %v", name, s.limits, w.violations)
	}
}

// runHarm runs one disturbance in traffic of keys that are denied all the time.
func runHarm(setting twinSetting, name string) *twinWorld {
	w := newTwinWorld(setting)
	saturate := func() int64 {
		before := w.denied()
		n := int(4 * setting.limits[0].Window / (200 * time.Millisecond))
		w.traffic(context.Background(), twinStep{n: n | 1, span: 200 * time.Millisecond}, 1)
		w.requests.Wait()
		return w.denied() - before
	}

	w.run([]twinStep{
		{"requests", 0, 41, 100 * time.Millisecond},
		{name, 0, 5, 1500 * time.Millisecond},
		{"requests", 0, 41, 100 * time.Millisecond},
	})
	if n := saturate(); n == 0 {
		w.violate("while keys are denied all the time, the harm is not found")
	}

	// Each key has more than six requests in one window, of which the candidate denies the
	// last three that the authoritative allows.
	w.rest()
	w.begin()
	before := w.denied()
	w.traffic(context.Background(), twinStep{n: 21, span: 50 * time.Millisecond}, 1)
	w.requests.Wait()
	time.Sleep(time.Second)
	if n := w.denied() - before; n != 9 && w.remote() {
		w.violate("afterwards %d requests are newly denied, want 9", n)
	}
	w.end()
	return w
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
func (w *twinWorld) denied() int64 { return w.count(divergence.NewlyDenied) }

// count returns how many requests had an outcome.
func (w *twinWorld) count(o divergence.Outcome) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.comparisons {
		if c.Outcome == o {
			n++
		}
	}
	return n
}
