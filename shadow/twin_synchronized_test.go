package shadow

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// twinFlight is what a process has collected and not yet joined.
type twinFlight struct {
	number  int64
	changes []algorithms.Change
}

// exchangeBehind has the processes of a world exchange what they have admitted over a network that loses requests and answers,
// until it is told to end.
func (w *twinWorld) exchangeBehind(seed uint64) (end func()) {
	exchange, flights := limitertest.NewExchange(), map[*twinInstance]*twinFlight{}
	rng := rand.New(rand.NewPCG(seed, 0))
	done := make(chan struct{})
	var behind sync.WaitGroup

	behind.Go(func() {
		for tick := time.NewTicker(37 * time.Millisecond); ; {
			select {
			case <-tick.C:
			case <-done:
				tick.Stop()
				return
			}

			w.mu.Lock()
			all := slices.Clone(w.all)
			w.mu.Unlock()
			for i, in := range all {
				if flights[in] == nil {
					flights[in] = &twinFlight{}
				}
				if !in.process.gone() && flights[in].advance(in, i, exchange, rng) {
					w.lose() // a window may end sooner than the process has thought
				}
			}
		}
	})
	return func() {
		close(done)
		behind.Wait()
	}
}

// advance has one process exchange, and reports whether it has learned of others.
func (f *twinFlight) advance(in *twinInstance, process int, exchange limitertest.Exchange, rng *rand.Rand) (learned bool) {
	memory := in.memory
	if len(f.changes) == 0 {
		f.changes, _ = memory.Changed(64)
		f.number++
	}

	// A request, and an answer, may be lost: the same exchange is sent again later.
	if len(f.changes) == 0 || rng.IntN(4) == 0 {
		return false
	}
	joint := exchange(process, f.number, f.changes)
	if rng.IntN(4) == 0 {
		return false
	}

	memory.Join(f.changes, joint, f.number)
	f.changes = nil
	for i := range joint {
		learned = learned || !joint[i].Ours
	}
	return learned
}

// Synchronized limiters that are the same never differ, whatever is lost on the way to the others.
func TestSynchronizedTwinsDoNotDiffer(t *testing.T) {
	all := slices.DeleteFunc(slices.Clone(algorithms.All), func(a algorithms.Algorithm) bool { return !algorithms.Synchronizable(a) })
	rapid.Check(t, func(t *rapid.T) {
		setting, program := drawTwins(t, [2]twinPlace{inSynchronized, inSynchronized}, all)
		seed := rapid.Uint64().Draw(t, "network")

		var w *twinWorld
		rapid.SyncTest(t, func(*rapid.T) {
			w = newTwinWorld(setting)
			end := w.exchangeBehind(seed)
			w.run(program)
			w.rest()
			w.calm()
			end()
			w.end()
		})
		w.checkComparisons()
		w.checkBudgets()
		w.check(t, program)
	})
}
