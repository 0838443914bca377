package divergence_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/divergence/ledgertest"
)

func TestMemoryLedger(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) divergence.Ledger { return divergence.NewMemoryLedger() })
}

func TestRedisLedgerOnMiniredis(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) divergence.Ledger {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { client.Close() })
		return divergence.NewRedisLedger(client, "test")
	})
}
