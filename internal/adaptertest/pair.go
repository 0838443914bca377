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
func testPair(t *testing.T, f Framework) {
	c := f.Start(t, serviceOf(t, newPair(t, f)))
	const policy = `ratelimit-policy: "per-tenant";q=2;w=3600`

	for i, tt := range []struct {
		route, tenant string
		status        int
		fields        string
	}{
		{"item", "a", 200, policy + `, ratelimit: "per-tenant";r=1;t=3600`},
		{"item", "a", 200, policy + `, ratelimit: "per-tenant";r=0;t=3600`},
		{"item", "a", 429, policy + `, ratelimit: "per-tenant";r=0;t=3600, retry-after: 3600`},
		{"item", "b", 200, policy + `, ratelimit: "per-tenant";r=1;t=3600`},
		{"free", "a", 200, ""},
		{"none", "a", 404, ""},
	} {
		a := send(t, c, tt.route, tenant(tt.tenant))
		if a.Status != tt.status || fields(a) != tt.fields {
			t.Errorf("request %d to %s: %d %s, want %d %s", i, tt.route, a.Status, fields(a), tt.status, tt.fields)
		}
	}
}
