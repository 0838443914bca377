package stages_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/stages/storetest"
)

func TestMemoryStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) stages.Store { return stages.NewMemoryStore() })
}

func TestRedisStoreOnMiniredis(t *testing.T) {
	storetest.Run(t, func(t *testing.T) stages.Store {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { client.Close() })
		return stages.NewRedisStore(client, "test")
	})
}

// A server that refuses to show a state has not said that it is rolled back.
func TestRefusedReadIsNoRollback(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { client.Close() })

	for _, refusal := range []string{
		"NOPERM this user has no permissions to run the 'hmget' command", "CLUSTERDOWN Hash slot not served",
		"MASTERDOWN Link with MASTER is down", "LOADING Redis is loading the dataset in memory",
	} {
		server.SetError(refusal)
		s, err := stages.Rollback(t.Context(), stages.NewRedisStore(client, "test"), "writes", stages.Order{})
		if err == nil || s.Stage != "" {
			t.Errorf("%s: %+v, %v", refusal, s, err)
		}
	}
}

// An entry of an instance that is not heard, as after a loss of a part of the data, goes with the next turn of a leader.
func TestUnheardEntriesGo(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	store := stages.NewRedisStore(client, "test")
	const instances = "shadowlimit1:{test}:instances"
	server.HSet(instances, "gone", "{}")

	lead := stages.Heartbeat{ID: "a", Self: &stages.Instance{ID: "a"}, Leads: true}
	if heard, err := store.Heartbeat(t.Context(), lead); err != nil || heard.Refused != nil || !heard.Known {
		t.Fatal(heard, err)
	}
	if left, err := server.HKeys(instances); err != nil || len(left) != 1 || left[0] != "a" {
		t.Errorf("%v, %v, want a alone", left, err)
	}
}
