package algorithms_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

func TestSynchronized(t *testing.T) { limitertest.Synchronized(t, limitertest.NewExchange) }

// remainingOf charges a synchronized memory at an instant, and returns what remains.
func remainingOf(m *algorithms.Memory, at time.Time, cost int64, side algorithms.Side) int64 {
	var into [1][2]algorithms.Observation
	_ = m.Evaluate(context.Background(), []algorithms.Check{
		{Policy: "p", Key: "k", Cost: cost, At: at, Sides: [2]algorithms.Side{side}},
	}, into[:])
	return into[0][0].Decision.Remaining
}

// What a window has admitted counts in the right one, whichever process is the first to tell of the next window.
func TestSynchronizedWindowsKeepTheirCounts(t *testing.T) {
	start := time.Unix(1_700_000_040, 0)
	for _, tt := range []struct {
		algorithm algorithms.Algorithm
		want      int64 // remains of 40 in the next window, after 30 in this one and 5 in that
	}{
		{algorithms.FixedWindow{}, 35},
		{algorithms.SlidingWindowCounter{}, 20}, // half of the 30 still count
		{algorithms.FixedWindowAnchored{}, 35},
	} {
		side := algorithms.Side{Algorithm: tt.algorithm, Limit: algorithms.Limit{Requests: 40, Window: time.Minute}}
		exchange, number := limitertest.NewExchange(), int64(0)
		a := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
		b := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
		tell := func(process int, m *algorithms.Memory) {
			number++
			changes, _ := m.Changed(8)
			m.Join(changes, exchange(process, number, changes), number)
		}

		remainingOf(a, start, 30, side)
		remainingOf(b, start.Add(90*time.Second), 4, side)
		tell(2, b)
		tell(1, a)
		remainingOf(b, start.Add(90*time.Second), 1, side)
		tell(2, b)
		if got := remainingOf(b, start.Add(90*time.Second), 0, side); got != tt.want {
			t.Errorf("%s: %d remain, want %d", tt.algorithm.Name(), got, tt.want)
		}
	}
}

// A key may be displaced, and begin again, while its exchange is under way. What the exchange has told the fleet stays counted.
func TestSynchronizedKeyIsDisplacedInFlight(t *testing.T) {
	at, exchange := time.Unix(1_700_000_000, 0), limitertest.NewExchange()
	m := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true, MaxKeys: 1})
	side := algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 40, Window: time.Minute}}
	remainingOf(m, at, 30, side)
	changes, _ := m.Changed(8)

	for i := range 4000 { // in all shards
		var into [1][2]algorithms.Observation
		_ = m.Evaluate(context.Background(), []algorithms.Check{
			{Policy: "p", Key: fmt.Sprint(i), Cost: 1, At: at, Sides: [2]algorithms.Side{side}},
		}, into[:])
	}
	if got := remainingOf(m, at, 1, side); got != 39 {
		t.Fatalf("%d remain, want 39: the key was displaced", got)
	}

	m.Join(changes, exchange(1, 1, changes), 1)
	if got := remainingOf(m, at, 0, side); got != 9 {
		t.Errorf("%d remain, want the 9 after 30 units that were told and 1 since", got)
	}
}

// Both sides of a key learn of the others in one step: two limiters that are the same never differ, also while they learn.
// A break of that is seen in most runs.
func TestSynchronizedSidesAreJoinedTogether(t *testing.T) {
	at, exchange := time.Unix(1_700_000_000, 0), limitertest.NewExchange()
	m := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
	limit := algorithms.Limit{Requests: 1 << 40, Window: time.Minute}
	check := []algorithms.Check{{Policy: "p", Key: "k", Cost: 1, At: at, Sides: [2]algorithms.Side{
		{ID: "a", Algorithm: slow{}, Limit: limit}, {ID: "b", Algorithm: slow{}, Limit: limit},
	}}}

	var joins sync.WaitGroup
	done := make(chan struct{})
	joins.Go(func() {
		defer close(done)
		for n := range int64(3000) {
			changes, _ := m.Changed(8)
			exchange(2, n+1, changes) // another process has admitted as much
			m.Join(changes, exchange(1, n+1, changes), n+1)
		}
	})
	defer joins.Wait()

	var into [1][2]algorithms.Observation
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		_ = m.Evaluate(context.Background(), check, into[:])
		if a, b := into[0][0].Decision, into[0][1].Decision; a != b {
			t.Fatalf("%+v beside %+v", a, b)
		}
	}
}

// slow has others run while it looks at a state, as it does after a join: a check then waits for the key.
type slow struct{ algorithms.FixedWindow }

func (s slow) Step(state algorithms.State, l *algorithms.Limit, cost, at int64) (algorithms.State, algorithms.Decision, error) {
	if cost == 0 {
		for range 20 {
			runtime.Gosched()
		}
	}
	return s.FixedWindow.Step(state, l, cost, at)
}

// A key that has something to tell is not dropped for being idle, and the hottest keys are told first.
func TestChangedTakesTheHottestKeysFirst(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true, MaxKeys: 1024})
	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 10, Window: time.Second}}
	for key, cost := range map[string]int64{"cold": 1, "hot": 9, "warm": 5} {
		var into [1][2]algorithms.Observation
		_ = m.Evaluate(context.Background(), []algorithms.Check{
			{Policy: "p", Key: key, Cost: cost, At: time.Unix(1_700_000_000, 0), Sides: [2]algorithms.Side{side}},
		}, into[:])
	}

	for _, want := range []struct {
		keys    []string
		waiting int
	}{{[]string{"hot", "warm"}, 1}, {[]string{"cold"}, 0}, {nil, 0}} {
		changes, waiting := m.Changed(3)
		var keys []string
		for _, c := range changes {
			keys = append(keys, c.Key)
		}
		if len(keys) != len(want.keys) || waiting != want.waiting || len(keys) > 0 && keys[0] != want.keys[0] {
			t.Errorf("%v and %d are waiting, want %v and %d", keys, waiting, want.keys, want.waiting)
		}
	}
}

// What has no three numbers for a state stays in the process.
func TestMemoryTellsOnlyWhatCanBeExchanged(t *testing.T) {
	limit := algorithms.Limit{Requests: 10, Window: time.Second}
	for name, side := range map[string]algorithms.Side{
		"a log":       {Algorithm: algorithms.SlidingWindowLog{}, Limit: limit},
		"a user's":    {Algorithm: silent{algorithms.GCRA{}}, Limit: limit},
		"no unit":     {Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Window: time.Second}},
		"a bad limit": {Algorithm: algorithms.GCRA{}},
	} {
		m := algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true})
		remainingOf(m, time.Unix(1_700_000_000, 0), 1, side)
		if changes, waiting := m.Changed(8); len(changes)+waiting > 0 {
			t.Errorf("%s: %+v and %d are waiting, want nothing", name, changes, waiting)
		}
	}
}

// silent is an algorithm of a user's, which tells nothing of itself.
type silent struct{ algorithms.Algorithm }
