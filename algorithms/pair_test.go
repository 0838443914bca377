package algorithms_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

func limitOf(a algorithms.Algorithm) algorithms.Limit {
	l := algorithms.Limit{Requests: 10, Window: time.Second}
	if a.Validate(l) != nil {
		l.Burst = 5
	}
	return l
}

// TestPairIsTwoLimiters judges the same checks at the same instants in a pair
// and in two pairs of one side each, for every two algorithms.
func TestPairIsTwoLimiters(t *testing.T) {
	for _, from := range algorithms.All {
		for _, to := range algorithms.All {
			rng := rand.New(rand.NewPCG(1, 1))
			both := algorithms.Check{Policy: "p", Sides: [2]algorithms.Side{
				{ID: "from", Algorithm: from, Limit: limitOf(from)}, {ID: "to", Algorithm: to, Limit: limitOf(to)},
			}}
			pair := algorithms.NewMemory(algorithms.MemoryConfig{})
			alone := [2]*algorithms.Memory{
				algorithms.NewMemory(algorithms.MemoryConfig{}), algorithms.NewMemory(algorithms.MemoryConfig{}),
			}

			at := noon
			for step := range 500 {
				at = at.Add(time.Duration(rng.IntN(150)) * time.Millisecond)
				both.At = at
				both.Cost = rng.Int64N(4)
				both.Key = fmt.Sprint(rng.IntN(3))
				both.Enforced = algorithms.Role(rng.IntN(2))

				o := one(t, pair, both)
				for r := range alone {
					single := both
					single.Sides[1-r] = algorithms.Side{}
					if want := one(t, alone[r], single)[r]; o[r] != want {
						t.Fatalf("%s and %s, step %d: the %s has %+v, alone %+v",
							from.Name(), to.Name(), step, algorithms.Role(r), o[r], want)
					}
				}
			}
		}
	}
}

func one(t testing.TB, pair algorithms.Pair, c algorithms.Check) [2]algorithms.Observation {
	t.Helper()
	var into [1][2]algorithms.Observation
	if err := pair.Evaluate(context.Background(), []algorithms.Check{c}, into[:]); err != nil {
		t.Fatal(err)
	}
	return into[0]
}

// witness is an algorithm that writes down its steps. A Memory steps a key under
// a lock, so the order in which the witness writes is the order of the history.
type witness struct {
	algorithms.Algorithm
	mu      sync.Mutex
	history []testimony
}

type testimony struct {
	cost, at int64
	decision algorithms.Decision
}

func (w *witness) Step(
	s algorithms.State, l *algorithms.Limit, cost, at int64,
) (algorithms.State, algorithms.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	next, d, err := w.Algorithm.Step(s, l, cost, at)
	if cost > 1 { // 1 is Memory's own question when nothing remains
		w.history = append(w.history, testimony{cost, at, d})
	}
	return next, d, err
}

// TestConcurrentHistoryIsLinear records what several callers are told and replays
// it through the oracle in the order of the steps.
func TestConcurrentHistoryIsLinear(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			const callers, checks = 8, 500
			w := &witness{Algorithm: a}

			limit := limitOf(a)
			limit.Requests *= 10
			if limit.Burst > 0 {
				limit.Burst *= 10
			}

			m := algorithms.NewMemory(algorithms.MemoryConfig{})
			told := make([]map[int64]algorithms.Decision, callers) // by instant, which no two checks share
			var group sync.WaitGroup
			for caller := range callers {
				told[caller] = make(map[int64]algorithms.Decision, checks)
				group.Go(func() {
					for i := range checks {
						at := noon.UnixMicro() + int64(i)*callers*1000 + int64(caller)

						o := one(t, m, algorithms.Check{Key: "k", Cost: int64(2 + i%3), At: time.UnixMicro(at),
							Sides: [2]algorithms.Side{{Algorithm: w, Limit: limit}}})
						told[caller][at] = o[0].Decision
					}
				})
			}
			group.Wait()

			oracle := limitertest.OracleOf(t, a)
			replayed, allowed := 0, 0
			for i, h := range w.history {
				want := oracle.Step(limit, h.cost, h.at)
				got := told[(h.at-noon.UnixMicro())%1000][h.at]
				if want != h.decision || want != got {
					t.Fatalf("step %d, cost %d at %d: told %+v, stepped %+v, oracle %+v", i, h.cost, h.at, got, h.decision, want)
				}

				replayed++
				if want.Allowed {
					allowed++
				}
			}

			if replayed != callers*checks || allowed == 0 || allowed == replayed {
				t.Errorf("%d of %d checks replayed, %d allowed: want all, and some of each", replayed, callers*checks, allowed)
			}
		})
	}
}
