package lua_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// TestAlwaysDenyingSideIsCompared holds that a side which has never admitted anything has a part with a number all the
// same: without one, it would be taken for a side that has lost its part.
func TestAlwaysDenyingSideIsCompared(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	c := charge(algorithms.FixedWindow{}, algorithms.Limit{Requests: 100, Window: time.Hour})
	c.Sides[1] = algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 5}}
	c.Cost, c.Epoch = 10, 7

	for i := range 5 {
		c.At = time.UnixMicro(1_700_000_000_000_000).Add(time.Duration(i) * time.Second)
		o := evaluate(t, pair, c)[0]
		if !o[0].Decision.Allowed || o[1].Decision.Allowed || o[0].Apart != 0 || o[1].Apart != 0 {
			t.Fatalf("charge %d: %+v", i, o)
		}
	}
}
