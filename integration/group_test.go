package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// members are the limits of the groups of these tests: all that a group takes.
func members() (list []algorithms.Member) {
	for _, a := range algorithms.All {
		m := algorithms.Member{Name: "m " + a.Name(), Algorithm: a, Limit: limitOf(a)}
		if (&algorithms.Group{Members: []algorithms.Member{m}}).Validate(algorithms.Limit{}) == nil {
			list = append(list, m)
		}
	}
	return list
}

// randomGroup returns a side of some of the members, in any order.
func randomGroup(rng *rand.Rand, id string) algorithms.Side {
	g := &algorithms.Group{Charge: algorithms.GroupCharge(rng.IntN(2))}
	all := members()
	for _, i := range rng.Perm(len(all))[:1+rng.IntN(4)] {
		g.Members = append(g.Members, all[i])
	}
	return algorithms.Side{ID: id, Algorithm: g}
}

// TestGroupCandidateChangesNothingOfTheAuthoritative compares the bytes of an authoritative group, alone and beside candidates
// that come, change, are refused, are overwritten with garbage, and go.
func TestGroupCandidateChangesNothingOfTheAuthoritative(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		rng := rand.New(rand.NewPCG(1, 1))
		authoritative := randomGroup(rng, "today")
		key := 0

		for step := range 300 {
			if step%20 == 0 {
				authoritative = randomGroup(rng, "today")
				key++
			}
			alone := algorithms.Charge{Policy: "p", Key: fmt.Sprint("alone ", key), Cost: rng.Int64N(4),
				At: time.UnixMicro(1_800_000_000_000_000 + int64(step)*7_000_000), Sides: [2]algorithms.Side{authoritative}}
			beside := alone
			beside.Key = fmt.Sprint("beside ", key)
			if rng.IntN(10) < 7 {
				beside.Sides[1] = randomGroup(rng, fmt.Sprint("c", step/5))
				beside.Enforced = algorithms.Role(rng.IntN(2))
			}
			if rng.IntN(10) == 0 && beside.Sides[1].Present() {
				beside.Sides[1].Group().Members[0].Limit.Window = 0
			}

			into := evaluate(t, pair, alone, beside)
			if into[0][0].Err != nil || into[0][0].Decision != into[1][0].Decision || into[0][0].Member != into[1][0].Member {
				t.Fatalf("step %d: alone %+v, beside a candidate %+v", step, into[0][0], into[1][0])
			}

			part := get(t, client, pair.RecordKey("p", alone.Key))
			record := get(t, client, pair.RecordKey("p", beside.Key))
			if !strings.Contains(record, part) {
				t.Fatalf("step %d: record %q, want the bytes %q of the authoritative alone", step, record, part)
			}
			if rng.IntN(5) == 0 && strings.HasPrefix(record, part) {
				garbage := part + string(bytes.Repeat([]byte{0xff}, rng.IntN(200)))
				if err := client.Set(context.Background(), pair.RecordKey("p", beside.Key), garbage, redis.KeepTTL).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRecordKeepsMembers charges more members than a side keeps.
func TestRecordKeepsMembers(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		limitertest.RecordKeepsMembers(t, pair)

		const most = 40 * 2 * (1 + algorithms.MaxMembers)
		if record := get(t, client, pair.RecordKey("members", "k")); len(record) != most {
			t.Errorf("the record has %d bytes, want %d: two sides with eight members each", len(record), most)
		}
	})
}

// TestLongestGroupAgreesWithTheModel charges groups of the most members with the largest numbers, whose records are the longest.
func TestLongestGroupAgreesWithTheModel(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, _ := newPair(t, s.addr)
		model := limitertest.NewModel()
		g := &algorithms.Group{}
		for i := range algorithms.MaxMembers {
			g.Members = append(g.Members, algorithms.Member{Name: fmt.Sprint("m", i), Algorithm: algorithms.FixedWindow{},
				Limit: algorithms.Limit{Requests: 1<<53 - 1 - int64(i), Window: time.Hour}})
		}

		for i, cost := range []int64{1 << 52, 1<<52 - 8, 0, 1, 1 << 53} {
			c := algorithms.Charge{Policy: "longest", Key: "k", Cost: cost, At: time.UnixMicro(1_800_000_000_000_000), Epoch: 1<<16 - 1,
				Sides: [2]algorithms.Side{{ID: "a", Algorithm: g}, {ID: "b", Algorithm: g}}}
			got := evaluate(t, pair, c)[0]
			for r, want := range model.Evaluate(c) {
				if got[r].Decision != want.Decision || got[r].Number != want.Number || got[r].Member != want.Member {
					t.Errorf("charge %d: %+v, want %+v", i, got[r], want)
				}
			}
		}
	})
}

// TestGroupWithoutScriptOrMemory takes the script and then the memory from a server. A script that is not known is sent again, and
// charges once. Out of memory nothing is charged: both sides fail by their store, and a denial is still answered.
func TestGroupWithoutScriptOrMemory(t *testing.T) {
	full := newFullRedis(t)
	ctx := context.Background()
	limit := algorithms.Limit{Requests: 3, Window: time.Hour}
	group := &algorithms.Group{Members: []algorithms.Member{
		{Name: "a", Algorithm: algorithms.GCRA{}, Limit: limit}, {Name: "b", Algorithm: algorithms.FixedWindow{}, Limit: limit},
	}}
	c := algorithms.Charge{Policy: "p", Key: "k", Cost: 1, At: time.UnixMicro(1_800_000_000_000_000), Epoch: 7,
		Sides: [2]algorithms.Side{{ID: "today", Algorithm: group}, {ID: "tomorrow", Algorithm: group}}}

	evaluate(t, full.pair, c)
	if err := full.client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if o := evaluate(t, full.pair, c)[0]; o[0].Decision.Remaining != 1 || o[1].Decision.Remaining != 1 || o[1].Number == 0 {
		t.Errorf("after the script was forgotten: %+v, want 1 remaining", o)
	}

	before := get(t, full.client, full.pair.RecordKey("p", "k"))
	full.leave(-1)
	for _, o := range evaluate(t, full.pair, c)[0] {
		var failed *lua.StoreError
		if !errors.As(o.Err, &failed) || !failed.NodeIsWell() {
			t.Errorf("out of memory: %+v, want the store's error", o)
		}
	}
	if after := get(t, full.client, full.pair.RecordKey("p", "k")); after != before {
		t.Errorf("out of memory the record became %q", after)
	}

	c.Cost = 2
	if o := evaluate(t, full.pair, c)[0]; o[0].Err != nil || o[0].Decision.Allowed || o[1].Err != nil {
		t.Errorf("a denial out of memory: %+v", o)
	}
}
