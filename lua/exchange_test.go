package lua_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

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
			want := specified(process, number, changes)
			if (err != nil) != (want == nil && len(changes) > 0) {
				t.Fatalf("%v, specified are %d answers", err, len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: %+v after %+v, specified %+v", changes[i].Side.Algorithm.Name(), got[i], changes[i], want[i])
				}
			}
			return got
		}
	})
}

// A key that another program has written, with another type or a number that no record has, counts as missing, and the rest of the exchange is charged.
func TestExchangeWithForeignKeys(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 10, Window: time.Second}}
	x := lua.Exchange{Process: "p", Number: 1}
	for _, key := range []string{"a", "b"} {
		x.Changes = append(x.Changes, algorithms.Change{
			Policy: "p", Key: key, Side: side,
			State: algorithms.State{Last: 1_700_000_000_000_000, Used: 1, Aux: 1}, Spent: algorithms.Spending{Units: 1},
		})
	}
	if _, err := server.Lpush("shadowlimit1:{test}:exchange:p", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Lpush(pair.ExchangeKey(&x.Changes[0]), "x"); err != nil {
		t.Fatal(err)
	}

	if err := server.Set(pair.ExchangeKey(&x.Changes[1]), "q.1 1 99999999999999999999999999 1"); err != nil {
		t.Fatal(err)
	}

	joint, err := pair.Exchange(context.Background(), &x)
	if want := []algorithms.Joint{{Ours: true}, {Ours: true}}; err != nil || !slices.Equal(joint, want) {
		t.Fatalf("%+v %v, want %+v", joint, err, want)
	}
	for i := range x.Changes {
		if got, _ := server.Get(pair.ExchangeKey(&x.Changes[i])); got != "p.1 1700000000000000 1 1" {
			t.Errorf("record %d is %q", i, got)
		}
	}
}

// An exchange that is sent again is charged once, also where Redis has evicted the note of its number: the record has its mark.
func TestExchangeWithoutItsNote(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	const at = 1_700_000_000_000_000
	x := func(process string, units int64) *lua.Exchange {
		return &lua.Exchange{Process: process, Number: 1, Changes: []algorithms.Change{{
			Policy: "p", Key: "k",
			Side:  algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 90, Window: time.Second}},
			State: algorithms.State{Last: at, Used: units, Aux: at}, Spent: algorithms.Spending{Units: units, First: at, Last: at},
		}}}
	}
	exchange := func(x *lua.Exchange) algorithms.Joint {
		joint, err := pair.Exchange(context.Background(), x)
		if err != nil {
			t.Fatal(err)
		}
		return joint[0]
	}

	exchange(x("a", 30))
	for range 2 {
		if got := exchange(x("b", 4)); got.State.Used != 34 {
			t.Errorf("%+v, want the 34 units of both", got)
		}
		server.Del(pair.NoteKey("b"))
	}
}

// A bucket that drains more in a microsecond than it holds stays overdrawn: a debt that is rounded to 0 would be a key never used.
func TestExchangeKeepsTheDebtOfAFastBucket(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	// Ten units drain in a microsecond. The fleet has been charged 1,005 of them at one instant, which takes 100 us.
	const at = 1_700_000_000_000_000
	limit := algorithms.Limit{Requests: 10_000_000, Window: time.Second, Burst: 1}
	first := algorithms.State{Last: at, Used: 1, Aux: 1}
	changeOf := func(units int64) algorithms.Change {
		return algorithms.Change{
			Policy: "p", Key: "k", Side: algorithms.Side{Algorithm: algorithms.TokenBucket{}, Limit: limit}, State: first,
			Spent: algorithms.Spending{Units: units, First: at, Last: at, Debt: 1, Token: 1},
		}
	}
	var joint []algorithms.Joint
	for i, units := range []int64{1, 1004} {
		x := &lua.Exchange{Process: fmt.Sprint(i), Number: 1, Changes: []algorithms.Change{changeOf(units)}}
		if joint, err = pair.Exchange(context.Background(), x); err != nil {
			t.Fatal(err)
		}
	}

	second := changeOf(1004)
	for judge, state := range map[string]algorithms.State{"the script": joint[0].State, "Debit": second.Debit(first)} {
		_, d, err := algorithms.TokenBucket{}.Step(state, &limit, 1, at)
		if err != nil || d.Allowed || d.RetryAfter < 100*time.Microsecond {
			t.Errorf("%s: %+v answers %+v (%v), want a denial until 100 us have passed", judge, state, d, err)
		}
	}
}
