package stages

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// hangingLedger answers no read.
type hangingLedger struct{ evidence.Ledger }

func (hangingLedger) Slots(ctx context.Context, _ evidence.ID, _, _ int64) ([]evidence.Slot, int64, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// punctualStore is a store that is asked in time only.
type punctualStore struct{ *MemoryStore }

func (s punctualStore) Publish(ctx context.Context, f Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.MemoryStore.Publish(ctx, f)
}

// A ledger that takes all the time of a turn does not keep the others from hearing that.
func TestLeaderPublishesWhatTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := punctualStore{NewMemoryStore()}
		if _, err := store.Heartbeat(t.Context(), Heartbeat{Specs: []Spec{{Policy: "p", Fingerprint: "e"}}}); err != nil {
			t.Fatal(err)
		}
		if err := Begin(t.Context(), store, "p", "e", 0, "test"); err != nil {
			t.Fatal(err)
		}
		leader := NewLeader(store, "a", NewController(store, hangingLedger{evidence.NewMemoryLedger()}, "leader a"), nil)

		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		_, _ = leader.Turn(ctx)
		list, err := store.Published(t.Context(), []string{"p"}, false)
		if err != nil || list[0].Leader != "a" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
