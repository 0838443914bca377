package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// inLedger returns the number of comparisons in the fleet's ledger.
func inLedger(t *testing.T, client redis.UniversalClient, name string) int64 {
	t.Helper()

	store, ledger := stages.NewRedisStore(client, name), evidence.NewRedisLedger(client, name)
	states, err := store.States(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}

	heard, err := store.Heartbeat(t.Context(), stages.Heartbeat{})
	if err != nil {
		t.Fatal(err)
	}
	now := heard.Now

	h, err := evidence.NewReader(ledger, states[0].LedgerID("per-user"), now.Add(-time.Hour)).History(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}

	return h.Total().Comparisons()
}

// A process that is killed loses the evidence since its last write, and no more. The
// process that replaces it overwrites nothing.
func TestKilledProcessLosesAnIntervalAtMost(t *testing.T) {
	t.Parallel()
	addr := privateServer(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })

	name := namespace()
	first := startService(t, addr, name)

	ask := func(s *service, n int) {
		for i := range n {
			s.get(t, "/", fmt.Sprint("user-", i))
		}
	}

	// These 100 are written, by the loop that writes every few seconds.
	ask(first, 100)
	deadline := time.After(30 * time.Second)
	for tick := time.Tick(100 * time.Millisecond); inLedger(t, client, name) < 100; {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("the ledger has %d of 100 comparisons", inLedger(t, client, name))
		}
	}

	// These 30 may be lost, and the next 20 are written at the orderly end.
	ask(first, 30)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	second := startService(t, addr, name)
	ask(second, 20)
	second.stop(t)

	if n := inLedger(t, client, name); n < 120 || n > 150 {
		t.Errorf("the ledger has %d comparisons, want 120, and at most the 30 that the killed process may have lost", n)
	}
}
