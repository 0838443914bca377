package lua_test

import (
	"context"
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

func newPair(t testing.TB, addr string) *lua.Pair {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// The real Redis is held against the oracle in the module integration; this is
// for a quick answer while working on the scripts.
func TestMiniredisAgreesWithOracle(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	programs := 4096
	if testing.Short() {
		programs = 512 // integration has thousands, on a real Redis
	}
	limitertest.Differential(t, 1, programs, limitertest.Backend{Name: "lua on miniredis", Pair: pair})
}

func evaluate(t testing.TB, pair algorithms.Pair, checks ...algorithms.Check) [][2]algorithms.Observation {
	t.Helper()
	into := make([][2]algorithms.Observation, len(checks))
	if err := pair.Evaluate(context.Background(), checks, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func check(a algorithms.Algorithm, l algorithms.Limit) algorithms.Check {
	return algorithms.Check{Policy: "p", Key: "k", Cost: 1, Sides: [2]algorithms.Side{{Algorithm: a, Limit: l}}}
}

// TestExpiryChangesNothing lets records expire on a virtual clock of the server's
// and holds every answer against an oracle that forgets nothing.
func TestExpiryChangesNothing(t *testing.T) {
	for _, a := range algorithms.All {
		t.Run(a.Name(), func(t *testing.T) {
			redis := miniredis.RunT(t)
			pair := newPair(t, redis.Addr())

			limit := algorithms.Limit{Requests: 3, Window: 2 * time.Second}
			if a.Validate(limit) != nil {
				limit.Burst = 3
			}

			oracle := limitertest.OracleOf(t, a)
			rng := rand.New(rand.NewPCG(7, 7))
			now := time.UnixMicro(1_700_000_000_123_456)
			expired := 0

			for step := range 300 {
				pause := time.Duration(rng.IntN(2_000_000)) * time.Microsecond
				if step%10 == 0 {
					pause += 4 * time.Second // longer than any of the limits remembers
				}

				now = now.Add(pause)
				redis.FastForward(pause)
				redis.SetTime(now)
				if !redis.Exists(pair.RecordKey("p", "k")) {
					expired++
				}

				c := check(a, limit)
				c.Cost = rng.Int64N(4)
				o := evaluate(t, pair, c)[0][0]
				if want := oracle.Step(limit, c.Cost, now.UnixMicro()); o.Err != nil || o.Decision != want || !o.At.Equal(now) {
					t.Fatalf("step %d, cost %d: %+v, want %+v", step, c.Cost, o, want)
				}
			}

			if expired < 10 {
				t.Errorf("the record had expired %d times, want often", expired)
			}
		})
	}
}

func TestScriptsCompose(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	for _, a := range algorithms.All {
		for _, b := range algorithms.All {
			c := algorithms.Check{Policy: "p", Key: a.Name() + b.Name(), Cost: 1, Sides: [2]algorithms.Side{
				{ID: "a", Algorithm: a, Limit: algorithms.Limit{Requests: 9, Window: time.Second, Burst: burstOf(a)}},
				{ID: "b", Algorithm: b, Limit: algorithms.Limit{Requests: 9, Window: time.Second, Burst: burstOf(b)}},
			}}

			for r, o := range evaluate(t, pair, c)[0] {
				if o.Err != nil || !o.Decision.Allowed {
					t.Errorf("%s with %s, %s side: %+v", a.Name(), b.Name(), algorithms.Role(r), o)
				}
			}
		}
	}
}

func burstOf(a algorithms.Algorithm) int64 {
	if a.Validate(algorithms.Limit{Requests: 9, Window: time.Second, Burst: 9}) == nil {
		return 9
	}
	return 0
}

// TestStrangeReplies answers scripts as no script does.
func TestStrangeReplies(t *testing.T) {
	replies := map[string]func(*server.Peer){
		"text":        func(p *server.Peer) { p.WriteInline("OK") },
		"nothing":     func(p *server.Peer) { p.WriteNull() },
		"empty":       func(p *server.Peer) { p.WriteLen(0) },
		"short":       func(p *server.Peer) { p.WriteLen(2); p.WriteInt(1); p.WriteInt(1) },
		"long":        func(p *server.Peer) { p.WriteStrings(make([]string, 99)) },
		"text inside": func(p *server.Peer) { p.WriteStrings([]string{"1", "1", "1", "1", "1", "1"}) },
		"an error":    func(p *server.Peer) { p.WriteError("OOM command not allowed") },
	}

	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
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

			pair := newPair(t, fake.Addr().String())
			c := check(algorithms.GCRA{}, algorithms.Limit{Requests: 1, Window: time.Second})
			o := evaluate(t, pair, c)[0][0]
			if o.Err == nil || o.Decision.Allowed {
				t.Errorf("%+v, want an error", o)
			}
		})
	}
}

func TestEvaluateRefuses(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	good := algorithms.Limit{Requests: 1, Window: time.Second}

	tests := []struct {
		name  string
		alter func(*algorithms.Check)
		want  error
	}{
		{"negative cost", func(c *algorithms.Check) { c.Cost = -1 }, algorithms.ErrCost},
		{"bad limit", func(c *algorithms.Check) { c.Sides[0].Limit.Requests = -1 }, algorithms.ErrLimit},
		{"policy with a colon", func(c *algorithms.Check) { c.Policy = "a:b" }, lua.ErrPolicy},
		{"policy with a brace", func(c *algorithms.Check) { c.Policy = "a}" }, lua.ErrPolicy},
		{"far instant", func(c *algorithms.Check) { c.At = time.Unix(1<<40, 0) }, algorithms.ErrInstant},
		{"same id", func(c *algorithms.Check) { c.Sides[1] = c.Sides[0] }, algorithms.ErrSameID},
		{"foreign algorithm", func(c *algorithms.Check) { c.Sides[0].Algorithm = foreign{} }, lua.ErrAlgorithm},
	}
	for _, tt := range tests {
		c := check(algorithms.GCRA{}, good)
		tt.alter(&c)

		if o := evaluate(t, pair, c)[0][0]; o.Status != algorithms.Failed || !errors.Is(o.Err, tt.want) {
			t.Errorf("%s: %s: %v, want %v", tt.name, o.Status, o.Err, tt.want)
		}
	}
}

func TestEvaluateWithoutASide(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())
	c := check(algorithms.GCRA{}, algorithms.Limit{Requests: 1, Window: time.Second})
	c.Sides[0] = algorithms.Side{}

	if o := evaluate(t, pair, c)[0][0]; o.Status != algorithms.NotAsked {
		t.Errorf("%s: %v, want that the side is absent", o.Status, o.Err)
	}
}

// TestEvaluateRecords holds that a pair takes the keys of records that its caller has made, and that one key for several
// checks is an error.
func TestEvaluateRecords(t *testing.T) {
	server := miniredis.RunT(t)
	pair := newPair(t, server.Addr())
	checks := []algorithms.Check{check(algorithms.GCRA{}, algorithms.Limit{Requests: 1, Window: time.Second})}
	into := make([][2]algorithms.Observation, 2)

	if err := pair.EvaluateRecords(context.Background(), checks, []string{"known"}, into); err != nil || into[0][0].Err != nil {
		t.Fatal(err, into[0][0].Err)
	}
	if keys := server.Keys(); len(keys) != 1 || keys[0] != "known" {
		t.Errorf("the keys are %q, want the one that was given", keys)
	}

	if err := pair.EvaluateRecords(context.Background(), append(checks, checks...), []string{"known"}, into); err == nil {
		t.Error("one key for two checks was taken")
	}
}

type foreign struct{ algorithms.GCRA }

func (foreign) Name() string { return "foreign" }

func TestNewRefuses(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()

	for _, name := range []string{"", "a b", "a:b", "a{b", "ä"} {
		if _, err := lua.New(client, lua.Config{Name: name}); err == nil {
			t.Errorf("name %q is not refused", name)
		}
	}

	if _, err := lua.New(nil, lua.Config{Name: "a"}); err == nil {
		t.Error("no client is not refused")
	}
}

func TestWarnings(t *testing.T) {
	tuned := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{"localhost:1"}}, 0))
	defer tuned.Close()
	if w := lua.Warnings(tuned); len(w) != 0 {
		t.Errorf("warnings of a tuned client: %q", w)
	}

	plain := redis.NewClient(&redis.Options{Addr: "localhost:1"})
	defer plain.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}})
	defer cluster.Close()

	options := []string{"ContextTimeoutEnabled", "ReadTimeout", "WriteTimeout", "PoolTimeout", "DialTimeout", "DialerRetries"}
	for name, client := range map[string]redis.UniversalClient{"plain": plain, "cluster": cluster} {
		all := strings.Join(lua.Warnings(client), "\n")
		for _, option := range options {
			if !strings.Contains(all, option) {
				t.Errorf("%s client: no warning of %s in\n%s", name, option, all)
			}
		}
	}

	if all := fmt.Sprint(lua.Warnings(plain)); !strings.Contains(all, "MaxRetries is 3") {
		t.Errorf("no warning of MaxRetries in %s", all)
	}
}

func TestLongAndHashLikeKeysStayApart(t *testing.T) {
	pair := newPair(t, miniredis.RunT(t).Addr())

	long := strings.Repeat("x", 257)
	stored := pair.RecordKey("p", long)
	if len(stored) > 128 {
		t.Errorf("a key of 257 bytes is stored as %d bytes, want a hash", len(stored))
	}

	hash := strings.TrimSuffix(strings.TrimPrefix(stored, "shadowlimit1:{test:p:"), "}")
	if pair.RecordKey("p", hash) == stored {
		t.Errorf("the key %q shares the record of the key that it is the hash of", hash)
	}
}
