package algorithms_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
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
