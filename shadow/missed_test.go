package shadow

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// has reports whether a key is taken for missed at an instant.
func (m *missed) has(hash uint64, at int64) bool {
	s := m.slot(hash)
	return s != nil && at < s.until.Load()
}

// A key is remembered until its time is over, and the pending ones until that of their charges is.
func TestMissedKeysAreRemembered(t *testing.T) {
	var m missed
	if m.has(1, 0) {
		t.Error("a key has missed a charge before any has")
	}

	m.note(1, 100)
	m.note(1, 50)
	if !m.has(1, 99) || m.has(1, 100) || m.has(2, 0) {
		t.Error("want key 1 until 100, and no other")
	}

	m.notePending(2, 100)
	m.rememberPending(200)
	if !m.has(2, 199) || m.has(2, 200) || m.has(1, 100) || m.anyPending.Load() {
		t.Error("want key 2 until 200, when its late charge is forgotten, and key 1 as before")
	}
}

// Beyond the bound it is not known which keys are pending, so all are.
func TestPendingKeysAreBounded(t *testing.T) {
	var m missed
	for hash := range uint64(mostPending) {
		m.notePending(hash, 100)
	}
	m.notePending(mostPending, 100)
	if len(m.pending) != mostPending {
		t.Errorf("%d keys are remembered, want %d", len(m.pending), mostPending)
	}

	m.rememberPending(200)
	if !m.has(0, 199) || !m.has(mostPending+1, 199) {
		t.Error("want every key until 200")
	}
}

// An instance that starts in a running migration has a fresh foreign limiter beside records
// that are older than itself.
func TestForeignSideBesideRedisJoinsBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		discard := slog.New(slog.DiscardHandler)
		limit := algorithms.Limit{Requests: 10, Window: time.Minute}
		mine := AllowFunc(func(string) bool { return true })
		redis := newRemoteStore("", algorithms.NewMemory(algorithms.MemoryConfig{}), discard)
		sides := [2]side{foreignSide(mine), algorithmSide(algorithms.Side{Algorithm: algorithms.FixedWindow{}}, redis)}

		outcome := func(since time.Duration) (seen []divergence.Outcome) {
			m := newMigration(promotion.Spec{Policy: "p", Epoch: "e"}, sides, options{log: discard})
			defer m.progress.followers.close(context.Background())
			m.apply(promotion.State{Version: promotion.Version{Term: 1}, Stage: promotion.Shadow, Epoch: "e", Since: m.progress.started.Add(since)})

			ev := evaluation{migration: m, limits: [2]algorithms.Limit{limit, limit}}
			for range 2 {
				o := observations{{At: time.Now()}, {At: time.Now()}}
				seen = append(seen, divergence.Compare(&o).Seen(ev.updateBlind(&algorithms.Charge{Cost: 1}, time.Now(), &o)))
				time.Sleep(2 * time.Minute)
			}
			return seen
		}

		if seen := outcome(-time.Hour); seen[0] != divergence.Blind || seen[1] == divergence.Blind {
			t.Errorf("in an older epoch %v, want one window of blindness", seen)
		}
		if seen := outcome(time.Second); seen[0] == divergence.Blind {
			t.Errorf("in an epoch of its own %v", seen)
		}
	})
}
