package evidence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/evidence/ledgertest"
)

func TestMemoryLedger(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) evidence.Ledger { return evidence.NewMemoryLedger() })
}

func TestRedisLedgerOnMiniredis(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) evidence.Ledger {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { client.Close() })
		return evidence.NewRedisLedger(client, "test")
	})
}

// What another program writes among the changes ends no reading, and is not the last change for ever.
func TestForeignChangesAreSkipped(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	ledger, id := evidence.NewRedisLedger(client, "test"), evidence.ID{Policy: "p", Evidence: "e"}
	now := time.Now()
	add := func(seq int64) {
		t.Helper()
		slot := evidence.Slot{Live: 1}
		slot.Unix = now.Unix() / evidence.SecondsPerMinute
		slot.Tally[evidence.AgreeAllow] = 1
		if dropped, err := ledger.Add(t.Context(), id, &evidence.Batch{Writer: "w", Seq: seq, Slots: []evidence.Slot{slot}}); err != nil || dropped != 0 {
			t.Fatal(dropped, err)
		}
	}
	add(1)
	const changes = "shadowlimit1:{test:p}:ledger:e:changes"
	for member, score := range map[string]float64{"minute": 7, "no minute": 1 << 51, "29000000": 1e300} {
		if _, err := server.ZAdd(changes, score, member); err != nil {
			t.Fatal(err)
		}
	}

	reader := evidence.NewReader(ledger, id, now.Add(-time.Hour))
	for want := int64(1); want <= 3; want++ {
		h, err := reader.History(t.Context(), now)
		if n := h.Total()[evidence.AgreeAllow]; err != nil || n != want {
			t.Fatalf("%d comparisons, %v, want %d", n, err, want)
		}
		add(want + 1)
	}
	if members, _ := server.ZMembers(changes); len(members) != 2 { // the low one is trimmed with the oldest
		t.Errorf("the changes are %q", members)
	}
}

// A service that changes its file again and again does not fill its memory.
func TestMemoryLedgerForgetsOldEvidence(t *testing.T) {
	ledger := evidence.NewMemoryLedger()
	id := func(n int) evidence.ID { return evidence.ID{Policy: "p", Evidence: fmt.Sprint(n)} }
	for n := range 2500 {
		slot := evidence.Slot{Live: 1}
		slot.Unix = time.Now().Unix() / evidence.SecondsPerMinute
		for _, of := range []evidence.ID{id(n), {Policy: "q", Evidence: "e"}} {
			if _, err := ledger.Add(t.Context(), of, &evidence.Batch{Writer: "w", Seq: int64(n + 1), Slots: []evidence.Slot{slot}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(of evidence.ID) bool {
		slots, _, err := ledger.Slots(t.Context(), of, 0, 0)
		return err == nil && len(slots) > 0
	}
	if !has(id(2499)) || has(id(0)) || !has(evidence.ID{Policy: "q", Evidence: "e"}) {
		t.Errorf("last %t, first %t, in use %t", has(id(2499)), has(id(0)), has(evidence.ID{Policy: "q", Evidence: "e"}))
	}
}
