package evidence_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

type sides [2]algorithms.Side

// causeCase is a pair of limiters that differ for one known reason.
type causeCase struct {
	name  string
	sides sides
	cold  bool          // the candidate loses its state in the middle
	lag   time.Duration // the candidate judges up to this much later
	sync  time.Duration // of the candidate, which two instances are
	// processes are the instances of a custom authoritative, each with the whole limit; 0: it is one of ours.
	processes int
	want      evidence.Cause
}

func limiter(a algorithms.Algorithm, requests int64, window time.Duration, burst int64) algorithms.Side {
	return algorithms.Side{Algorithm: a, Limit: algorithms.Limit{Requests: requests, Window: window, Burst: burst}}
}

var causeCases = []causeCase{
	{
		name: "fixed window, sliding log",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0)},
		want: evidence.WindowBoundary,
	},
	{
		name: "fixed window, sliding counter",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)},
		want: evidence.WindowBoundary,
	},
	{
		name: "sliding log, sliding counter",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)},
		want: evidence.WindowBoundary,
	},
	{
		name: "sliding log, sliding counter in another store",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)},
		lag:  2 * time.Second,
		want: evidence.WindowBoundary,
	},
	{
		name: "log of 20 a minute, log of 200 in ten, in another store",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowLog{}, 200, 10*time.Minute, 0)},
		lag:  2 * time.Second,
		want: evidence.WindowBoundary,
	},
	{
		name: "aligned windows, anchored windows",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.FixedWindowAnchored{}, 20, time.Minute, 0)},
		want: evidence.WindowBoundary,
	},
	{
		name: "fixed window, bucket of a small burst",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.TokenBucket{}, 20, time.Minute, 4)},
		want: evidence.BurstShape,
	},
	{
		name: "GCRA, the same with a smaller burst",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 20),
			limiter(algorithms.TokenBucket{}, 20, time.Minute, 5)},
		want: evidence.BurstShape,
	},
	{
		name: "fixed window, half the limit",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.FixedWindow{}, 10, time.Minute, 0)},
		want: evidence.LimitValue,
	},
	{
		name: "sliding log, half the limit",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowLog{}, 10, time.Minute, 0)},
		want: evidence.LimitValue,
	},
	{
		name: "GCRA, twice the rate",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 5),
			limiter(algorithms.TokenBucket{}, 40, time.Minute, 5)},
		want: evidence.LimitValue,
	},
	{
		name: "the same log in two stores, 2 s apart",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0)},
		lag:  2 * time.Second,
		want: evidence.StoreLag,
	},
	{
		name: "the same GCRA in two stores, 2 s apart",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 0),
			limiter(algorithms.GCRA{}, 20, time.Minute, 0)},
		lag:  2 * time.Second,
		want: evidence.StoreLag,
	},
	{
		name: "the same log, its state lost",
		sides: sides{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0),
			limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0)},
		cold: true,
		want: evidence.ColdState,
	},
	{
		name: "the same GCRA, its state lost",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 0),
			limiter(algorithms.GCRA{}, 20, time.Minute, 0)},
		cold: true,
		want: evidence.ColdState,
	},
	{
		name: "the same fixed window, synchronized every 2 s",
		sides: sides{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0),
			limiter(algorithms.FixedWindow{}, 20, time.Minute, 0)},
		sync: 2 * time.Second,
		want: evidence.SyncLag,
	},
	{
		name: "the same GCRA, synchronized every 2 s",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 0),
			limiter(algorithms.GCRA{}, 20, time.Minute, 0)},
		sync: 2 * time.Second,
		want: evidence.SyncLag,
	},
	{
		name: "a custom GCRA in each of 3 processes, one of their sum",
		sides: sides{limiter(algorithms.GCRA{}, 20, time.Minute, 4),
			limiter(algorithms.TokenBucket{}, 60, time.Minute, 12)},
		processes: 3,
		want:      evidence.PerProcess,
	},
}

// run sends twenty minutes of bursty traffic of three clients through both limiters, each in a store of its own, and
// returns the number of differences by cause.
func (c *causeCase) run(t *testing.T) (causes [len(evidence.AllCauses)]int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	unbounded := algorithms.MemoryConfig{MaxKeys: -1}
	stores := [2]*algorithms.Memory{algorithms.NewMemory(unbounded), algorithms.NewMemory(unbounded)}
	recorder := evidence.NewRecorder(nil)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	processes := make([]*algorithms.Memory, c.processes)
	for i := range processes {
		processes[i] = algorithms.NewMemory(unbounded)
	}

	// Most requests cost 1, and some as much as fits only where a lot is left.
	costs := []int64{1, 1, 1, 3}
	lost := false
	fleet := newSynchronizedFleet()
	step := func() time.Duration { return time.Duration(rng.Int64N(int64(2500 * time.Millisecond))) }

	for at := time.Duration(0); at < 20*time.Minute; at += step() {
		if c.cold && !lost && at > 10*time.Minute {
			stores[algorithms.Candidate] = algorithms.NewMemory(unbounded)
			lost = true
		}

		key := fmt.Sprint("client-", rng.IntN(3))
		for range 1 + rng.IntN(4) {
			cost := costs[rng.IntN(len(costs))]
			var o [2]algorithms.Observation
			for role := range o {
				check := algorithms.Check{
					Policy: "p", Key: key, Cost: cost, At: start.Add(at), Enforced: algorithms.Role(role),
				}
				if role == int(algorithms.Candidate) {
					check.At = check.At.Add(time.Duration(rng.Int64N(int64(c.lag) + 1)))
				}
				check.Sides[role] = c.sides[role]

				into := make([][2]algorithms.Observation, 1)
				store := stores[role]
				if c.sync > 0 && role == int(algorithms.Candidate) {
					store = fleet.one(at, c.sync, rng.IntN(2))
				}
				if c.processes > 0 && role == int(algorithms.Authoritative) {
					store = processes[rng.IntN(c.processes)]
				}
				if err := store.Evaluate(context.Background(), []algorithms.Check{check}, into); err != nil {
					t.Fatal(err)
				}
				o[role] = into[0][role]
			}

			setting := &evidence.Setting{Cost: cost}
			switch {
			case c.sync > 0:
				setting.Stores = evidence.Synchronized
			case c.lag > 0 || c.cold:
				setting.Stores = evidence.TwoStores
			}
			for role, s := range c.sides {
				setting.Limits[role], setting.Shapes[role] = s.Limit, algorithms.TraitsOf(s.Algorithm).Shape
			}
			if c.processes > 0 {
				setting.PerProcess[algorithms.Authoritative], setting.Shapes[algorithms.Authoritative] = true, algorithms.UnknownShape
			}

			recorder.Observe(key, uint64(len(key)), start.Add(at), &o, setting)
		}
	}

	totals := recorder.Totals()
	for i := range causes {
		causes[i] = totals.Denied[i] + totals.Allowed[i]
	}

	return causes
}

// synchronizedFleet is two processes that decide by themselves and exchange what they have admitted.
type synchronizedFleet struct {
	processes [2]*algorithms.Memory
	exchange  limitertest.Exchange
	number    int64
	last      time.Duration
}

func newSynchronizedFleet() *synchronizedFleet {
	f := &synchronizedFleet{exchange: limitertest.NewExchange()}
	for i := range f.processes {
		f.processes[i] = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1, Synchronized: true})
	}
	return f
}

// one returns a process at an instant, after the exchanges that are due.
func (f *synchronizedFleet) one(at, every time.Duration, process int) *algorithms.Memory {
	if at-f.last >= every {
		f.last = at
		for i, m := range f.processes {
			f.number++
			changes, _ := m.Changed(64)
			m.Join(changes, f.exchange(i, f.number, changes), f.number)
		}
	}
	return f.processes[process]
}

// Where the reason of a difference is known, the guess is right for nine of ten differences.
func TestCauses(t *testing.T) {
	for _, c := range causeCases {
		found := c.run(t)
		var sum int64
		for _, n := range found {
			sum += n
		}
		least := sum * 9 / 10
		if c.cold {
			least = 1 // later differences look like lag
		}
		if sum == 0 || found[c.want] < least {
			t.Errorf("%s: %s for %d of %d differences: %v", c.name, c.want, found[c.want], sum, found)
		}
	}
}

// A limiter whose shape no rule of cause.go knows would get the cause that comes last there.
func TestEveryShapeHasARowOfCauses(t *testing.T) {
	covered := map[algorithms.Shape]bool{}
	for _, c := range causeCases {
		for _, side := range c.sides {
			covered[algorithms.TraitsOf(side.Algorithm).Shape] = true
		}
	}

	for _, a := range algorithms.All {
		if shape := algorithms.TraitsOf(a).Shape; !covered[shape] {
			t.Errorf("no row of causeCases has a limiter that forgets as %s does (shape %s): "+
				"add one with the cause you expect, and the shape to cause.go (cold, lower, bucketCause)", a.Name(), shape)
		}
	}
}
