package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// A replay of two policies that are charged together compares a request where the other policy admits it, and a request that
// one of them denies costs the other nothing. The numbers are those of counters by hand.
func TestListedPoliciesAreReplayedTogether(t *testing.T) {
	const user, userNext, all = 5, 3, 20
	day := 24 * time.Hour
	window := func(limit int64, id string) algorithms.Side {
		return algorithms.Side{ID: id, Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: limit, Window: day}}
	}
	cfgs := []replay.Config{
		{Policy: "user", Sides: [2]algorithms.Side{window(user, ""), window(userNext, "next")}},
		{Policy: "all", Sides: [2]algorithms.Side{window(all, ""), window(all, "next")}},
	}

	rng := rand.New(rand.NewPCG(1, 2))
	var events [2]replay.Events
	var spent, next [10]int
	var total, compared, newlyDenied, comparedAll int64
	for n := range uint32(400) {
		who := rng.IntN(len(spent))
		at := time.Unix(1_700_000_000, 0).Add(time.Duration(n) * time.Second).UnixMicro()
		listed := rng.IntN(4) > 0 // else the policy of all does not match
		events[0].Add(at, fmt.Append(nil, "user", who), 1)
		events[0].Number(n)
		if listed {
			events[1].Add(at, []byte("all"), 1)
			events[1].Number(n)
		}

		allOK, userOK := !listed || total < all, spent[who] < user
		if allOK {
			compared++
			if userOK && next[who] >= userNext {
				newlyDenied++
			}
			if next[who] < userNext {
				next[who]++
			}
		}
		if listed && userOK {
			comparedAll++
		}
		if allOK && userOK {
			spent[who]++
			if listed {
				total++
			}
		}
	}

	for own, want := range []int64{compared, comparedAll} {
		pair := algorithms.NewMemory(algorithms.MemoryConfig{})
		cfgs[own].Pair = pair
		report, err := replay.RunListed(context.Background(), own, []*replay.Events{&events[0], &events[1]}, cfgs)
		if err != nil {
			t.Fatal(err)
		}
		p := report.Policies[0]
		if p.Comparisons != want || own == 0 && p.NewlyDenied != newlyDenied || own == 1 && p.NewlyDenied != 0 {
			t.Errorf("%s: %d comparisons, %d newly denied; want %d, and %d for user", p.Name, p.Comparisons, p.NewlyDenied, want, newlyDenied)
		}
	}
}
