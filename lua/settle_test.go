package lua_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// TestSettledLogsTell holds that entries of a long log that have another cost leave it one whose seqs tell the cost of any stretch:
// else each later check would read all of them.
func TestSettledLogsTell(t *testing.T) {
	redisServer := miniredis.RunT(t)
	pair := newPair(t, redisServer.Addr())
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	defer client.Close()
	model, rng := limitertest.NewModel(), rand.New(rand.NewPCG(1, 1))

	at := time.UnixMicro(1_700_000_000_000_000)
	c := check(algorithms.SlidingWindowLog{}, algorithms.Limit{Requests: 600, Window: time.Minute})
	type open struct{ ours, models *algorithms.Receipt }
	var list []open
	moved := 0
	for step := range 1500 {
		at = at.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
		c.At, c.Cost, c.Receipt = at, 1+rng.Int64N(5), new(algorithms.Receipt)
		if step%10 == 0 {
			c.Cost = 400 // denied: when it would be admitted is a question of sums
		}
		m := c
		m.Receipt = new(algorithms.Receipt)
		want, got := model.Evaluate(m)[0], evaluate(t, pair, c)[0][0]
		if got.Err != nil || got.Lost || got.Decision != want.Decision {
			t.Fatalf("step %d: %+v, want %+v", step, got, want)
		}
		if c.Receipt.Any() {
			list = append(list, open{c.Receipt, m.Receipt})
		}

		if len(list) > 0 && step%3 > 0 {
			i := rng.IntN(min(len(list), 1+rng.IntN(200)))
			if rng.IntN(2) == 0 {
				i = len(list) - 1 - i
			}
			r := list[i]
			list = append(list[:i], list[i+1:]...)
			final := max(0, rng.Int64N(8)-2)
			var into [1][2]algorithms.Settled
			if err := pair.Settle(t.Context(), []algorithms.Settlement{{Receipt: r.ours, Cost: final, At: at}}, into[:]); err != nil {
				t.Fatal(err)
			}
			if want := model.Settle(algorithms.Settlement{Receipt: r.models, Cost: final, At: at}); into[0] != want {
				t.Fatalf("step %d: %+v, want %+v", step, into[0], want)
			}
			if !into[0][0].Late && final != r.ours.Cost {
				moved++
			}
		}

		members := client.ZRange(t.Context(), pair.LogKey("p", "k", "sliding_window_log"), 0, -1).Val()
		before := int64(-1)
		for _, member := range members {
			var instant, seq, cost int64
			if _, err := fmt.Sscanf(strings.ReplaceAll(member, ":", " "), "%d %d %d", &instant, &seq, &cost); err != nil {
				t.Fatal(err)
			}
			if before >= 0 && instant > at.Add(-time.Minute).UnixMicro() && seq-before != 2*cost {
				t.Fatalf("step %d: the seq of %s is %d behind the one before: %q", step, member, seq-before, members)
			}
			before = seq
			if instant <= at.Add(-time.Minute).UnixMicro() {
				before = -1
			}
		}
	}
	if moved < 200 {
		t.Errorf("%d entries have another cost, want hundreds", moved)
	}
}

// TestSettlementsOfRedis holds what does not depend on a step: a surcharge on a record that has expired, and answers that are none.
func TestSettlementsOfRedis(t *testing.T) {
	redisServer := miniredis.RunT(t)
	pair := newPair(t, redisServer.Addr())
	now := time.UnixMicro(1_700_000_000_000_000)
	redisServer.SetTime(now)
	c := check(algorithms.GCRA{}, algorithms.Limit{Requests: 10, Window: 10 * time.Second})
	c.Receipt = new(algorithms.Receipt)
	evaluate(t, pair, c)

	redisServer.FastForward(time.Minute)
	redisServer.SetTime(now.Add(time.Minute))
	if redisServer.Exists(pair.RecordKey("p", "k")) {
		t.Fatal("the record lives on")
	}
	var into [1][2]algorithms.Settled
	if err := pair.Settle(t.Context(), []algorithms.Settlement{{Receipt: c.Receipt, Cost: 26}}, into[:]); err != nil || into[0] != [2]algorithms.Settled{} {
		t.Fatalf("%+v, %v", into, err)
	}
	if ttl := redisServer.TTL(pair.RecordKey("p", "k")); ttl < 25*time.Second || ttl > 30*time.Second {
		t.Errorf("a debt of 25 s lives for %s", ttl)
	}
	if d := evaluate(t, pair, c)[0][0].Decision; d.Allowed || d.RetryAfter != 16*time.Second {
		t.Errorf("after a surcharge of 25 on 10: %+v, want a wait of 16s", d)
	}
}

func TestStrangeRepliesToSettlements(t *testing.T) {
	for name, reply := range map[string]func(*server.Peer){
		"an error": func(p *server.Peer) { p.WriteError("LOADING") },
		"nothing":  func(p *server.Peer) { p.WriteNull() },
		"short":    func(p *server.Peer) { p.WriteBulk("1234567") },
	} {
		fake, err := server.NewServer("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer fake.Close()
		for _, command := range []string{"EVAL", "EVALSHA"} {
			if err := fake.Register(command, func(p *server.Peer, _ string, _ []string) { reply(p) }); err != nil {
				t.Fatal(err)
			}
		}

		side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 10, Window: time.Second}}
		r := &algorithms.Receipt{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Charged{{Side: side, At: 1}}}
		var into [1][2]algorithms.Settled
		if err := newPair(t, fake.Addr().String()).Settle(t.Context(), []algorithms.Settlement{{Receipt: r}}, into[:]); err != nil {
			t.Fatal(err)
		}
		var failed *lua.StoreError
		if !errors.As(into[0][0].Err, &failed) || into[0][1].Err != nil {
			t.Errorf("%s: %+v", name, into[0])
		}
	}
}
