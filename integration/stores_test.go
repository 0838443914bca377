package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/divergence/ledgertest"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/storetest"
)

// namespace is one that nobody else uses.
func namespace() string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

func clientOf(t *testing.T, s server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestRedisStore(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		storetest.Run(t, func(t *testing.T) promotion.Store { return promotion.NewRedisStore(clientOf(t, s), namespace()) })
	})
}

func TestRedisLedger(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		ledgertest.Run(t, func(t *testing.T) divergence.Ledger { return divergence.NewRedisLedger(clientOf(t, s), namespace()) })
	})
}

// A user who may not publish can still roll back: instances ask every second.
func TestRollbackWithoutTheRightToPublish(t *testing.T) {
	addr := privateServer(t)
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">pw", "~*", "resetchannels", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	mute := redis.NewClient(&redis.Options{Addr: addr, Username: "mute", Password: "pw"})
	defer mute.Close()
	store := promotion.NewRedisStore(mute, "test")
	if err := promotion.Begin(t.Context(), store, "p", "e", "test"); err != nil {
		t.Fatal(err)
	}
	if s, err := promotion.Rollback(t.Context(), store, "p", promotion.Order{}); err != nil || s.Stage != promotion.RolledBack {
		t.Errorf("%v, %v", s, err)
	}
}
