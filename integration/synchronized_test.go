package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// synchronizedPolicy is a policy whose instances exchange when the test says so: within its 10 s the test is over, and an exchange
// more would only lower what they admit.
func synchronizedPolicy(t *testing.T, name, side string) *policies.Set {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(fmt.Sprintf(`
version: 1
name: %s
policies:
  - { name: p, key: request.user, authoritative: { %s, limit: 1000, window: 1h, store: { sync: 10s } } }
`, name, side)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Twenty instances that charge one key at once admit at most the limit and what nineteen of them admit between two exchanges.
// Before the limit is reached nothing is lost: no more is left than the limit.
func TestTwentySynchronizedInstancesStayWithinTheBound(t *testing.T) {
	const instances, burst, limit = 20, 7, 1000
	addr := privateServer(t)
	for _, side := range []string{
		"algorithm: fixed_window_anchored", "algorithm: token_bucket", "algorithm: gcra", "algorithm: leaky_bucket, burst: 1000",
		"algorithm: sliding_window_counter",
	} {
		set, began := synchronizedPolicy(t, namespace(), side), time.Now()
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range instances {
			client, _ := counted(t, addr, time.Second)
			h := harnessOf(t, shadow.Config{Policies: set, Redis: client, StateDir: t.TempDir()})
			all.Go(func() {
				for range 20 {
					for range burst {
						if h.Decide(t.Context(), &policies.Request{User: "alice"}).Allowed {
							admitted.Add(1)
						}
					}
					if err := h.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()

		// A bucket refills meanwhile, and the counter forgets at the most as much.
		refilled := int64(time.Since(began).Seconds()*limit/3600) + 1
		bound := int64(limit) + (instances-1)*burst + refilled
		if got := admitted.Load(); got < limit || got > bound {
			t.Errorf("%s: %d admitted, want %d to %d", side, got, limit, bound)
		}
		t.Logf("%s: %d admitted of a limit of %d, bound %d", side, admitted.Load(), limit, bound)
	}
}

// Redis is asked for an exchange, and not for a request.
func TestSynchronizedRequestsDoNotAskRedis(t *testing.T) {
	client, sent := counted(t, privateServer(t), time.Second)
	h := harnessOf(t, shadow.Config{
		Policies: synchronizedPolicy(t, namespace(), "algorithm: gcra"), Redis: client, StateDir: t.TempDir(),
	})

	// Some scripts are the fleet's.
	const requests = 5000
	before := sent.calls.Load()
	for n := range requests {
		h.Decide(t.Context(), &policies.Request{User: fmt.Sprint(n % 100)})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked := sent.calls.Load() - before; asked < 1 || asked > requests/50 {
		t.Errorf("%d requests of 100 keys sent %d scripts", requests, asked)
	}
}

// Real Redis answers each exchange as the specification does.
func TestExchangeOfRealRedis(t *testing.T) {
	client, _ := counted(t, privateServer(t), time.Second)
	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	limitertest.Synchronized(t, func() limitertest.Exchange {
		run, specified := namespace(), limitertest.NewExchange()
		return func(process int, number int64, changes []algorithms.Change) []algorithms.Joint {
			told := append([]algorithms.Change(nil), changes...)
			for i := range told {
				told[i].Key += run // each program has records of its own
			}

			got, err := pair.Exchange(context.Background(), &lua.Exchange{
				Process: strings.Join([]string{run, fmt.Sprint(process)}, "-"), Number: number, Changes: told,
			})

			// A copy that comes late has no answer: its process has joined that of a later exchange.
			answers := specified(process, number, changes)
			if late := len(answers) < len(changes); late != (err != nil) {
				t.Fatalf("late %t, error %v", late, err)
			}
			for i, want := range answers {
				if got[i] != want {
					t.Fatalf("%s: %+v after %+v, specified %+v", changes[i].Side.Algorithm.Name(), got[i], changes[i], want)
				}
			}
			return got
		}
	})
}
