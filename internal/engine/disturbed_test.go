package engine

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A Redis that has lost its data, or has an older copy of it, is found out once by each instance.
func TestLostDataIsFound(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	one, other := &losses{raise: raiseIn(client, "test")}, &losses{raise: raiseIn(client, "test")}
	found := func(l *losses) bool {
		t.Helper()
		lost, err := l.found(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}

	if !found(one) || found(other) || found(one) || found(other) {
		t.Error("want a new store to be found by the first one that asks")
	}
	server.FlushAll()
	if !found(one) || !found(other) || found(one) || found(other) {
		t.Error("want the loss of all data to be found once by each")
	}

	for range 5 {
		found(one)
	}
	server.Set(algorithms.KeyPrefix+"{test}:raised", "3")
	if !found(one) || found(one) {
		t.Error("want an older copy of the data to be found once")
	}
}

// What is compared with a side of this process beside one that outlives it does not count until the process is as old
// as a window. Two sides that began together are compared at once.
func TestSideOfAYoungProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		inRedis := bothIn(NewRemoteStore("", algorithms.NewMemory(algorithms.MemoryConfig{}), never, log))[0]
		inMemory, custom := bothIn(NewMemoryStore())[0], CustomSide(callerFunc(allows))
		for _, test := range []struct {
			sides [2]Side
			young bool
		}{
			{[2]Side{inRedis, inMemory}, true},
			{[2]Side{inMemory, inRedis}, true},
			{[2]Side{custom, inRedis}, true},
			{[2]Side{custom, inMemory}, false},
			{[2]Side{custom, custom}, false},
			{[2]Side{inMemory, inMemory}, false},
			{[2]Side{inRedis, inRedis}, false},
		} {
			p := NewPolicy(stages.Spec{Policy: "p", Window: time.Minute}, test.sides, PolicyOptions{Log: log})
			young := func() bool { return !p.inProcess.old.Load() && p.inProcess.young(&Observations{}, p.Spec.Window) }
			time.Sleep(time.Minute - time.Millisecond)
			if got := young(); got != test.young {
				t.Errorf("%+v: young is %t within a window", test.sides, got)
			}
			time.Sleep(time.Millisecond)
			if young() {
				t.Errorf("%+v: young after a window", test.sides)
			}
			if p.progress.async != nil {
				p.progress.async.close(t.Context())
			}
		}
	})
}
