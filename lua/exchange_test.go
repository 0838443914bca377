package lua_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/lua"
)

// The script keeps what is promised, and each of its answers is that of the specification.
func TestExchange(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	limitertest.Synchronized(t, func() limitertest.Exchange {
		server.FlushAll()
		specified := limitertest.NewExchange()
		return func(process int, number int64, changes []algorithms.Change) []algorithms.Joint {
			got, err := pair.Exchange(context.Background(), &lua.Exchange{Process: fmt.Sprint(process), Number: number, Changes: changes})
			if err != nil {
				t.Fatal(err)
			}
			want := specified(process, number, changes)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: %+v after %+v, specified %+v", changes[i].Side.Algorithm.Name(), got[i], changes[i], want[i])
				}
			}
			return got
		}
	})
}
