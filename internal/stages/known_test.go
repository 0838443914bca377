package stages_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A rollback waits for a policy that instances are about to restore, and for no other.
func TestRollbackWaitsForAPolicyThatWasLost(t *testing.T) {
	for _, tt := range []struct {
		restored time.Duration // 0: never
		want     stages.Stage
		took     time.Duration
	}{
		{2990 * time.Millisecond, stages.RolledBack, 3 * time.Second}, // the next question comes at 3 s
		{0, "", 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, began := stages.NewMemoryStore(), time.Now()
			if tt.restored > 0 {
				time.AfterFunc(tt.restored, func() {
					promoted := stages.State{Version: stages.Version{Term: 1, Seq: 2}, Stage: stages.Promoted, Fingerprint: "e"}
					if err := store.Put(t.Context(), "p", promoted, stages.Condition{}); err != nil {
						t.Error(err)
					}
				})
			}

			s, err := stages.Rollback(t.Context(), store, "p", stages.Order{Reason: "429s"})
			if took := time.Since(began).Round(100 * time.Millisecond); s.Stage != tt.want || took != tt.took {
				t.Errorf("%s, %v after %s, want %s after %s", s, err, took, tt.want, tt.took)
			}
			if lost := errors.Is(err, stages.ErrUnknownPolicy); lost != (tt.restored == 0) {
				t.Error(err)
			}
		})
	}
}
