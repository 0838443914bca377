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

// A key is remembered until its time is over. A key that finds no room counts for all keys.
func TestMissedKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m missed
		now := time.Now().UnixMicro()
		soon := now + time.Minute.Microseconds()
		for hash := range uint64(mostMissed) {
			m.note(hash, soon)
		}
		if m.of(0) != soon || m.of(mostMissed) != 0 {
			t.Errorf("key 0 until %d, a key that missed nothing until %d", m.of(0)-now, m.of(mostMissed)-now)
		}

		later := soon + time.Hour.Microseconds()
		m.note(mostMissed, later)
		if len(m.until) != mostMissed || m.of(mostMissed+1) != later {
			t.Errorf("%d keys, another one until %d, want all keys to count", len(m.until), m.of(mostMissed+1)-now)
		}

		time.Sleep(2 * time.Minute)
		m.note(mostMissed, later)
		if len(m.until) != 1 {
			t.Errorf("%d keys are remembered, want the one whose time is not over", len(m.until))
		}
	})
}

// Once everything is forgotten, requests take no lock again.
func TestCalmPolicyTakesNoLock(t *testing.T) {
	var m missed
	m.noteLate(1, 100)
	if !m.has(1, 99) || m.has(1, 100) || m.has(2, 99) {
		t.Error("want key 1 until 100, and no other")
	}
	m.caughtUp(200)
	if !m.has(1, 199) {
		t.Error("want key 1 until its late charge is forgotten")
	}

	m.mu.Lock() // a request that takes it never ends
	defer m.mu.Unlock()
	if m.has(1, 200) || m.anyLate.Load() {
		t.Error("want nothing after 200")
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
			defer m.followers.close(context.Background())
			m.apply(promotion.State{Version: promotion.Version{Term: 1}, Stage: promotion.Shadow, Epoch: "e", Since: m.started.Add(since)})

			ev := evaluation{migration: m, limits: [2]algorithms.Limit{limit, limit}}
			for range 2 {
				o := observations{{At: time.Now()}, {At: time.Now()}}
				seen = append(seen, divergence.Compare(&o).Seen(ev.blind(time.Now(), &o)))
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
