package shadow

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// blips are runs of a fleet of 20 instances whose candidate has a store of its own. A few are made in every test, many with
// SHADOWLIMIT_LONG.
func blips(few, many int) int {
	if os.Getenv("SHADOWLIMIT_LONG") != "" {
		return many
	}
	return few
}

// stageAfter returns the state of a promoted candidate a minute after a disturbance that began soon after the promotion, at 50
// requests a second. The fleet judges by itself.
func stageAfter(t *testing.T, disturbance twinStep, seed uint64) (s stages.State) {
	limit := algorithms.Limit{Requests: 1000, Window: time.Minute}
	setting := twinSetting{
		algorithm: algorithms.FixedWindow{}, limits: [2]algorithms.Limit{limit, limit},
		places: [2]twinPlace{inFirst, inSecond}, instances: 20,
	}

	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newTwinWorld(setting)
		defer w.end()
		traffic := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				w.ask(t.Context(), w.someInstance(rng.IntN(setting.instances)), fmt.Sprint("client-", rng.IntN(200)), 1)
			}
		}

		w.run(nil)
		twinSteps["promote"](w, twinStep{})
		traffic(20 * time.Second)
		twinSteps[disturbance.do](w, disturbance)
		traffic(disturbance.span + time.Minute)
		w.requests.Wait()
		w.ends.Wait()

		states, err := w.states.States(t.Context(), []string{twinPolicy})
		if err != nil {
			t.Fatal(err)
		}
		s = states[0]
	})
	return s
}

// A blip of one of 20 instances hurts no client, and is over before three minutes have passed, with the rest of its breaker.
func TestBlipOfOneInstanceRollsNothingBack(t *testing.T) {
	for run := range blips(2, 60) {
		ways := []string{"cut", "refuse", "mute"}
		spans := []time.Duration{25 * time.Second, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second}
		blip := twinStep{ways[run%len(ways)], 1, 7 + run, spans[run/len(ways)%len(spans)]}

		if s := stageAfter(t, blip, uint64(run)); s.Stage != stages.Promoted {
			t.Errorf("%s: %s, because %s", blip, s, s.Reason)
		}
	}
}

// An outage of the candidate's store of over three minutes is one that a hold does not end: it is rolled back.
func TestOutageOfTheCandidatesStoreIsRolledBack(t *testing.T) {
	for run := range blips(1, 20) {
		for _, way := range []string{"kill", "out of memory"}[:blips(1, 2)] {
			outage := twinStep{way, 1, 0, 200 * time.Second}
			if s := stageAfter(t, outage, uint64(run)); s.Stage != stages.RolledBack {
				t.Errorf("%s: %s, want it rolled back", outage, s)
			}
		}
	}
}
