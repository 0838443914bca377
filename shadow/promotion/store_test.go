package promotion_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/storetest"
)

func TestMemoryStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) promotion.Store { return promotion.NewMemoryStore() })
}

func TestRedisStoreOnMiniredis(t *testing.T) {
	storetest.Run(t, func(t *testing.T) promotion.Store {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { client.Close() })
		return promotion.NewRedisStore(client, "test")
	})
}
