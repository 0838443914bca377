package shadow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// An instance that has started without its store by the stage on its disk goes by the store
// once that answers. It restores a rollback, and a policy that the store has lost.
func TestStageOfTheDiskIsSettled(t *testing.T) {
	at := func(term, seq int64, stage promotion.Stage) promotion.State {
		return promotion.State{
			Version: promotion.Version{Term: term, Seq: seq}, Stage: stage, Epoch: "e", Hold: stage == promotion.RolledBack,
		}
	}
	for _, tt := range []struct {
		name               string
		disk, stored, want promotion.State
	}{
		{"the same", at(1, 2, promotion.Promoted), at(1, 2, promotion.Promoted), at(1, 2, promotion.Promoted)},
		{"newer", at(1, 2, promotion.Promoted), at(2, 1, promotion.RolledBack), at(2, 1, promotion.RolledBack)},
		{"begun again", at(3, 2, promotion.Promoted), at(1, 1, promotion.Shadow), at(1, 1, promotion.Shadow)},
		{"lost", at(1, 2, promotion.Promoted), promotion.State{}, at(1, 2, promotion.Promoted)},
		{"a rollback that was lost", at(2, 1, promotion.RolledBack), at(1, 2, promotion.Promoted), at(2, 1, promotion.RolledBack)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				store := &cuttable{Store: promotion.NewMemoryStore()}
				run := func() (*fleet, *migration) {
					f, m := idleOn(store, "a")
					f.disk = &disk{dir: dir, name: "test"}
					f.start()
					return f, m
				}
				put := func(s promotion.State) {
					if err := store.Put(ctx, "p", s, promotion.Condition{}); err != nil {
						t.Fatal(err)
					}
				}

				put(tt.disk)
				f, _ := run()
				f.close(ctx)

				store.Store = promotion.NewMemoryStore()
				store.cut.Store(true)
				f, m := run()
				defer f.close(ctx)
				if got := *m.stage.state.Load(); got.String() != tt.disk.String() {
					t.Fatalf("without the store: %s, want %s", got, tt.disk)
				}

				if tt.stored.Stage != "" {
					put(tt.stored)
				}
				store.cut.Store(false)
				time.Sleep(3 * time.Second)
				states, err := store.States(ctx, []string{"p"})
				if got := *m.stage.state.Load(); err != nil || got.String() != tt.want.String() || states[0].String() != tt.want.String() {
					t.Errorf("with the store: %s, stored %s, %v, want %s", got, states[0], err, tt.want)
				}
			})
		})
	}
}
