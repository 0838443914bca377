package divergence_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

var update = flag.Bool("update", false, "write docs/causes.md")

// causeCase is a pair of limiters that differ for one known reason.
type causeCase struct {
	name  string
	sides [2]algorithms.Side
	// cold empties the candidate's state in the middle, lag judges the candidate by so
	// much later.
	cold bool
	lag  time.Duration
	want divergence.Cause
}

func limiter(a algorithms.Algorithm, requests int64, window time.Duration, burst int64) algorithms.Side {
	return algorithms.Side{Algorithm: a, Limit: algorithms.Limit{Requests: requests, Window: window, Burst: burst}}
}

var causeCases = []causeCase{
	{"fixed window, sliding log", [2]algorithms.Side{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0), limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0)}, false, 0, divergence.WindowBoundary},
	{"fixed window, sliding counter", [2]algorithms.Side{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0), limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)}, false, 0, divergence.WindowBoundary},
	{"sliding log, sliding counter", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)}, false, 0, divergence.WindowBoundary},
	{"sliding log, sliding counter in another store", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), limiter(algorithms.SlidingWindowCounter{}, 20, time.Minute, 0)}, false, 2 * time.Second, divergence.WindowBoundary},
	{"log of 20 a minute, log of 200 in ten, in another store", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.SlidingWindowLog{}, Limit: algorithms.Limit{Requests: 200, Window: 10 * time.Minute}}}, false, 2 * time.Second, divergence.WindowBoundary},
	{"aligned windows, anchored windows", [2]algorithms.Side{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0), limiter(algorithms.FixedWindowAnchored{}, 20, time.Minute, 0)}, false, 0, divergence.WindowBoundary},
	{"fixed window, bucket of a small burst", [2]algorithms.Side{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0), limiter(algorithms.TokenBucket{}, 20, time.Minute, 4)}, false, 0, divergence.BurstShape},
	{"GCRA, the same with a smaller burst", [2]algorithms.Side{limiter(algorithms.GCRA{}, 20, time.Minute, 20), limiter(algorithms.TokenBucket{}, 20, time.Minute, 5)}, false, 0, divergence.BurstShape},
	{"fixed window, half the limit", [2]algorithms.Side{limiter(algorithms.FixedWindow{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 10, Window: time.Minute}}}, false, 0, divergence.LimitValue},
	{"sliding log, half the limit", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.SlidingWindowLog{}, Limit: algorithms.Limit{Requests: 10, Window: time.Minute}}}, false, 0, divergence.LimitValue},
	{"GCRA, twice the rate", [2]algorithms.Side{limiter(algorithms.GCRA{}, 20, time.Minute, 5), limiter(algorithms.TokenBucket{}, 40, time.Minute, 5)}, false, 0, divergence.LimitValue},
	{"the same log in two stores, 2 s apart", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.SlidingWindowLog{}, Limit: algorithms.Limit{Requests: 20, Window: time.Minute}}}, false, 2 * time.Second, divergence.StoreLag},
	{"the same GCRA in two stores, 2 s apart", [2]algorithms.Side{limiter(algorithms.GCRA{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 20, Window: time.Minute}}}, false, 2 * time.Second, divergence.StoreLag},
	{"the same log, its state lost", [2]algorithms.Side{limiter(algorithms.SlidingWindowLog{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.SlidingWindowLog{}, Limit: algorithms.Limit{Requests: 20, Window: time.Minute}}}, true, 0, divergence.ColdState},
	{"the same GCRA, its state lost", [2]algorithms.Side{limiter(algorithms.GCRA{}, 20, time.Minute, 0), {ID: "b", Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 20, Window: time.Minute}}}, true, 0, divergence.ColdState},
}

// run sends twenty minutes of bursty traffic of some clients through both limiters,
// each in a store of its own, and returns the causes that were found.
func (c *causeCase) run(t *testing.T) (causes [len(divergence.AllCauses)]int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	stores := [2]*algorithms.Memory{algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}), algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})}
	recorder := divergence.NewRecorder(nil)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for at, lost := time.Duration(0), false; at < 20*time.Minute; at += time.Duration(rng.Int64N(int64(2500 * time.Millisecond))) {
		if c.cold && !lost && at > 10*time.Minute {
			stores[algorithms.Candidate], lost = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}), true
		}
		key := fmt.Sprint("client-", rng.IntN(3))
		for range 1 + rng.IntN(4) {
			var o [2]algorithms.Observation
			for role := range o {
				charge := algorithms.Charge{Policy: "p", Key: key, Cost: 1, At: start.Add(at), Enforced: algorithms.Role(role)}
				if role == int(algorithms.Candidate) {
					charge.At = charge.At.Add(time.Duration(rng.Int64N(int64(c.lag) + 1)))
				}
				charge.Sides[role] = c.sides[role]
				into := make([][2]algorithms.Observation, 1)
				if err := stores[role].Evaluate(context.Background(), []algorithms.Charge{charge}, into); err != nil {
					t.Fatal(err)
				}
				o[role] = into[0][role]
			}
			setting := &divergence.Setting{Cost: 1, SeparateStores: c.lag > 0 || c.cold}
			for role, s := range c.sides {
				setting.Limits[role], setting.Shapes[role] = s.Limit, algorithms.TraitsOf(s.Algorithm).Shape
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

const causesHead = `# Causes of a divergence

` + "`shadowlimit_divergence_causes_total`" + ` counts differences by their probable cause. The cause is guessed from how the two sides forget,
from their limits, and from what the side that allows answered at that instant: how much remains, and how long until it is as if
unused. It is a hint where to look; the gate does not use it. A foreign limiter does not say how it forgets, so its differences
are ` + "`other`" + `.

| cause | what it means |
|---|---|
| window_boundary | a window of one side has ended, and the other still counts what was in it |
| burst_shape | a bucket allows less at once, or more over a window, than the other |
| limit_value | one side's limit is lower, and is used up |
| store_lag | the sides are equal, but in two stores, and judged at slightly different instants |
| cold_state | the side that allows lacks what the other side has counted: it was restarted, failed over, or is new |

The table shows how good the guess is where the reason is known: pairs that differ for one reason only, in twenty minutes of bursty
traffic (` + "`TestCauses`" + `). After the first differences, the effect of lost state looks like lag between two stores.

| pair | differences | found | taken for |
|---|---|---|---|
`

// Where the reason is known, most differences are put down to it.
func TestCauses(t *testing.T) {
	var b strings.Builder
	b.WriteString(causesHead)
	for _, c := range causeCases {
		found := c.run(t)
		var sum int64
		var others []string
		for i, n := range found {
			sum += n
			if divergence.Cause(i) != c.want && n > 0 {
				others = append(others, fmt.Sprintf("%s %d", divergence.Cause(i), n))
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s %d | %s |\n", c.name, sum, c.want, found[c.want], strings.Join(others, ", "))
		least := sum * 9 / 10
		if c.cold {
			least = 1 // what follows is lag
		}
		if sum == 0 || found[c.want] < least {
			t.Errorf("%s: %s for %d of %d differences, else %v", c.name, c.want, found[c.want], sum, others)
		}
	}
	const file = "../../docs/causes.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the test says (%v): go test ./shadow/divergence -update", file, err)
	}
}

// A limiter whose shape no rule of cause.go knows would be put down to whatever comes
// last there.
func TestEveryShapeHasARowOfCauses(t *testing.T) {
	covered := map[algorithms.Shape]bool{}
	for _, c := range causeCases {
		for _, side := range c.sides {
			covered[algorithms.TraitsOf(side.Algorithm).Shape] = true
		}
	}

	for _, a := range algorithms.All {
		if shape := algorithms.TraitsOf(a).Shape; !covered[shape] {
			t.Errorf("no row of causeCases has a limiter that forgets as %s does (shape %d): "+
				"add one with the cause you expect, and the shape to cause.go (cold, lower, bucketCause)", a.Name(), shape)
		}
	}
}
