package lua_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// The script counts days in another way than Go does. Traces visit few months, so this looks at many, and at their edges.
func TestScriptsKnowTheCalendar(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { client.Close() })
	pair, err := lua.New(client, lua.Config{Name: "calendar"})
	if err != nil {
		t.Fatal(err)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	for unit := algorithms.Week; unit <= algorithms.Year; unit++ {
		limit := algorithms.Limit{Requests: 2, Window: unit.Longest(), Options: algorithms.Options{Calendar: unit}}
		for i := range 150 {
			month := time.Date(1900+rng.IntN(210), time.Month(1+rng.IntN(12)), 1, 0, 0, 0, 0, time.UTC)
			at := month.Add(time.Duration(rng.IntN(3)-1) * time.Microsecond)
			if i%3 == 0 {
				at = month.Add(time.Duration(rng.Int64N(int64(31 * 24 * time.Hour))))
			}

			charge := algorithms.Charge{Policy: "p", Key: fmt.Sprint(unit, i), Cost: 1, At: at,
				Sides: [2]algorithms.Side{{Algorithm: algorithms.FixedWindow{}, Limit: limit}}}
			var into [1][2]algorithms.Observation
			if err := pair.Evaluate(t.Context(), []algorithms.Charge{charge}, into[:]); err != nil {
				t.Fatal(err)
			}
			want := limitertest.NewOracle("fixed_window").Step(limit, 1, at.UnixMicro())
			if o := into[0][0]; o.Err != nil || o.Decision != want {
				t.Fatalf("the %s of %s: %+v, %v, want %+v", unit, at, o.Decision, o.Err, want)
			}
		}
	}
}
