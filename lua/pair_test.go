package lua_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

func newPair(t testing.TB, addr string) (*lua.Pair, *redis.Client) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	pair, err := lua.New(client, lua.Config{Name: fmt.Sprintf("test-%x", rand.Uint64())})
	if err != nil {
		t.Fatal(err)
	}
	return pair, client
}

func TestMiniredisAgreesWithOracle(t *testing.T) {
	pair, _ := newPair(t, miniredis.RunT(t).Addr())
	limitertest.Differential(t, 1, 4096, limitertest.Backend{Name: "lua on miniredis", Pair: pair})
}
