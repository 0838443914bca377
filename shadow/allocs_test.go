//go:build !race

package shadow

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A decision in memory that is compared and recorded allocates nothing, also where the client may leave.
func TestDecisionInMemoryAllocatesNothing(t *testing.T) {
	limit := algorithms.Limit{Requests: 1_000_000, Window: time.Hour}
	for _, authoritative := range []Side{{Algorithm: algorithms.FixedWindow{}, Limit: limit}, NoLimit} {
		p, err := NewPair(PairConfig{
			Authoritative: authoritative,
			Candidate:     Side{Algorithm: algorithms.TokenBucket{}, Limit: limit},
		})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(context.Background())

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p.Allow(ctx, "k", 1)
		if n := testing.AllocsPerRun(1000, func() { p.Allow(ctx, "k", 1) }); n > 0 {
			t.Errorf("%s: %v allocations a decision, want none", p.policy.Spec.Authoritative, n)
		}
	}
}
