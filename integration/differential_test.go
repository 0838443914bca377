package integration

import (
	"flag"
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

var (
	steps = flag.Int("steps", 20_000, "boundary-biased steps of the differential test")
	seed  = flag.Uint64("seed", 1, "of the first trace of the differential test, and of the random program of disturbances")
)

// longBudget lets no test of decisions fail because the machine is busy.
const longBudget = 30 * time.Second

// newPair returns a pair in a namespace of its own, and its client.
func newPair(t testing.TB, addr string) (*lua.Pair, redis.UniversalClient) {
	t.Helper()
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, longBudget))
	t.Cleanup(func() { client.Close() })
	return pairOn(t, client, newName()), client
}

// newName returns a namespace that no other test has.
func newName() string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

func pairOn(t testing.TB, client redis.UniversalClient, name string) *lua.Pair {
	t.Helper()
	pair, err := lua.New(client, lua.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestDifferential compares the Go pair, the Lua pair on real Redis and the Lua pair on
// miniredis with the oracle, on the same traces.
func TestDifferential(t *testing.T) {
	t.Parallel()
	list, err := servers()
	if err != nil {
		t.Fatal(err)
	}

	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	backends := []limitertest.Backend{{Name: "memory", Pair: memory}}
	for _, s := range list {
		_, client := newPair(t, s.addr)
		name := newName()
		pair := &renewed{make: func() *lua.Pair { return pairOn(t, client, name) }}
		backends = append(backends, limitertest.Backend{Name: "lua on redis, " + s.way, Pair: pair})
	}

	pair, _ := newPair(t, miniredis.RunT(t).Addr())
	backends = append(backends, limitertest.Backend{Name: "lua on miniredis", Pair: pair})

	limitertest.Differential(t, *seed, *steps, backends...)
	if !t.Failed() {
		fmt.Printf("integration: %d steps on the oracle and %d backends: no difference\n", *steps, len(backends))
	}
}

func TestRedisKeepsTheLaws(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s server) {
		pair, _ := newPair(t, s.addr)
		for _, a := range algorithms.All {
			t.Run(a.Name(), func(t *testing.T) {
				shared := func(testing.TB) algorithms.Pair { return pair }
				limitertest.Run(t, limitertest.Subject{Algorithm: a, New: shared})
			})
		}
	})
}
