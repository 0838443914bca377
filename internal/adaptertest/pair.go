package adaptertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// newPair returns a pair that limits the tenants of a framework's item route. Its clock stands still.
func newPair(t *testing.T, f Framework) *shadow.Pair {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limit := algorithms.Limit{Requests: 2, Window: time.Hour}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Policy: "per-tenant",
		Key: func(r *policies.Request) (string, bool) {
			return fmt.Sprint(r.Headers["X-Tenant"], r.IP != ""), slices.Contains([]string{f.Item, f.Stream}, r.Route)
		},
		Clock:         func() time.Time { return now },
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: 2 * time.Hour}},
	})
	if err == nil {
		err = pair.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := pair.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pair
}

// A pair limits as a harness does. It sees the route and all headers, although it has no policies that name them.
func testPair(t *testing.T, f Framework) { testLimits(t, f.Start(t, serviceOf(t, newPair(t, f)))) }
