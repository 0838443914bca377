package promotion_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// A rollback waits for a policy that instances are about to restore, and for no other.
func TestRollbackWaitsForAPolicyThatWasLost(t *testing.T) {
	for _, tt := range []struct {
		restored time.Duration // 0: never
		want     promotion.Stage
		took     time.Duration
	}{
		{2990 * time.Millisecond, promotion.RolledBack, 3 * time.Second}, // the next question comes at 3 s
		{0, "", 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, began := promotion.NewMemoryStore(), time.Now()
			if tt.restored > 0 {
				time.AfterFunc(tt.restored, func() {
					promoted := promotion.State{Version: promotion.Version{Term: 1, Seq: 2}, Stage: promotion.Promoted, Fingerprint: "e"}
					if err := store.Put(t.Context(), "p", promoted, promotion.Condition{}); err != nil {
						t.Error(err)
					}
				})
			}

			s, err := promotion.Rollback(t.Context(), store, "p", promotion.Order{Reason: "429s"})
			if took := time.Since(began).Round(100 * time.Millisecond); s.Stage != tt.want || took != tt.took {
				t.Errorf("%s, %v after %s, want %s after %s", s, err, took, tt.want, tt.took)
			}
			if lost := errors.Is(err, promotion.ErrUnknownPolicy); lost != (tt.restored == 0) {
				t.Error(err)
			}
		})
	}
}
