package algorithms_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// An algorithm that accepts count_denied and does not count would let a client in that its model keeps out.
func TestEveryAlgorithmCountsOrRefusesDenied(t *testing.T) {
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Minute, Options: algorithms.Options{CountDenied: true}}
		if burstRuleOf(a) == algorithms.BurstRequired {
			limit.Burst = 10
		}

		// What a denied charge does to a bucket that refills meanwhile is defined nowhere.
		accepts, bucket := a.Validate(limit) == nil, algorithms.TraitsOf(a).Shape == algorithms.Bucket
		if accepts == bucket {
			t.Errorf("%s accepts count_denied: %t, but its Shape is Bucket: %t; the Validate of a bucket refuses the option "+
				"(Limit.validateBucket), all others count (Limit.counts)", a.Name(), accepts, bucket)
		}
		if !accepts {
			continue
		}

		// Of 10 units 6 are spent. A denied cost of 6 counts, so that nothing is left for a cost of 1.
		var s algorithms.State
		var d algorithms.Decision
		for _, cost := range []int64{6, 6, 1} {
			s, d, _ = a.Step(s, &limit, cost, 0)
		}
		if d.Allowed {
			t.Errorf("%s accepts count_denied, but a denied cost does not count: ask Limit.counts in its Step", a.Name())
		}
	}
}

// Redis takes a state of Used 0 for a key never used, so what a step stores beside it would be lost there.
func TestEveryStateWithoutUseIsTheZeroState(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), rapid.MakeCheck(func(t *rapid.T) {
			p := keyPrograms.Draw(t, "program")
			limit := p.limitOf(a)
			if counted := limit; rapid.Bool().Draw(t, "count denied") {
				counted.CountDenied = true
				if a.Validate(counted) == nil {
					limit = counted
				}
			}

			var s algorithms.State
			for _, c := range p.charges {
				next, _, err := a.Step(s, &limit, c.cost, c.at)
				if err != nil {
					t.Fatal(err)
				}
				if s = next; s.Used == 0 && s != (algorithms.State{}) {
					t.Fatalf("%s with %s: cost %d at %d us leaves %+v, whose Used is 0: leave the zero State", a.Name(), limit, c.cost, c.at, s)
				}
			}
		}))
	}
}
