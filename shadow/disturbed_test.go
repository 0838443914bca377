package shadow

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// A Redis that has lost its data, or has an older copy of it, is found out once by each instance.
func TestLostDataIsFound(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	one, other := newLosses(client, "test"), newLosses(client, "test")
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

// What is compared beside a side of this process does not count until the process is as old as a window.
func TestSideOfAYoungProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		remote, memory := newRemoteStore("", algorithms.NewMemory(algorithms.MemoryConfig{}), log), newMemoryStore()
		sides := func(a, b *store) *migration {
			both := bothIn(a)
			both[1].store = b
			return newMigration(promotion.Spec{Policy: "p", Window: time.Minute}, both, options{log: log})
		}
		young := func(m *migration) bool { return !m.inProcess.old.Load() && m.young(&observations{{At: time.Now()}}) }

		beside, inMemory, inRedis := sides(remote, memory), sides(memory, memory), sides(remote, remote)
		time.Sleep(time.Minute - time.Millisecond)
		if !young(beside) || young(inMemory) || young(inRedis) {
			t.Errorf("within a window: memory beside Redis %t, memory %t, Redis %t", young(beside), young(inMemory), young(inRedis))
		}
		time.Sleep(time.Millisecond)
		if young(beside) {
			t.Error("memory beside Redis is young after a window")
		}
		for _, m := range []*migration{beside, inMemory, inRedis} {
			if m.progress.async != nil {
				m.progress.async.close(t.Context())
			}
		}
	})
}
