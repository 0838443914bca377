package integration

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/redisread"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Another program has left 70 MB in a key. Whoever reads it gets an error that names the key, or reads a state that counts as
// rolled back, and takes no memory for it.
func TestNoKeyTakesAReadersMemory(t *testing.T) {
	long(t)
	addr := privateServer(t)
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 30 * time.Second})
	t.Cleanup(func() { client.Close() })
	ctx := t.Context()

	large := strings.Repeat("x", 70_000_000)
	const many = 100_001
	type filling func(key string) error
	text := func(key string) error { return client.Set(ctx, key, large, 0).Err() }
	field := func(key string) error { return client.HSet(ctx, key, "p", large).Err() }
	hour := func(key string) error { return client.HSet(ctx, key, "hour", large).Err() }
	member := func(key string) error { return client.ZAdd(ctx, key, redis.Z{Score: 7, Member: large}).Err() }
	entry := func(key string) error {
		return client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"state", large}}).Err()
	}
	repeated := func(command string) filling {
		return func(key string) error {
			script := `local text = string.rep('x', 200) for i = 1, ARGV[1] do redis.call(ARGV[2], KEYS[1], i, i .. text) end return 1`
			return client.Eval(ctx, script, []string{key}, many, command).Err()
		}
	}
	hash, set := repeated("HSET"), repeated("ZADD")

	fleet := func(s *stages.RedisStore, _ *evidence.RedisLedger) error { _, err := s.Fleet(ctx); return err }
	heartbeat := func(s *stages.RedisStore, _ *evidence.RedisLedger) error {
		_, err := s.Heartbeat(ctx, stages.Heartbeat{ID: "a", Policies: []string{"p"}})
		return err
	}
	published := func(s *stages.RedisStore, _ *evidence.RedisLedger) error {
		_, err := s.Published(ctx, []string{"p"}, true)
		return err
	}
	id := evidence.ID{Policy: "p", Evidence: "e"}
	slots := func(_ *stages.RedisStore, l *evidence.RedisLedger) error {
		list, _, err := l.Slots(ctx, id, 0, 0)
		for _, s := range list {
			err = errors.Join(err, s.Err)
		}
		return err
	}

	for _, tt := range []struct {
		key   string
		fill  filling
		read  func(*stages.RedisStore, *evidence.RedisLedger) error
		heals bool // it gives way, or counts as garbage
	}{
		{"{%s}:lease", text, fleet, false},
		{"{%s}:heard", set, fleet, false},
		{"{%s}:heard", member, fleet, false},
		{"{%s}:instances", hash, fleet, false},
		{"{%s}:instances", field, fleet, false},
		{"{%s}:policies", field, fleet, false},
		{"{%s}:lease", text, heartbeat, true},
		{"{%s}:changes", text, heartbeat, true},
		{"{%s}:levels", text, heartbeat, true},
		{"{%s}:states", field, heartbeat, true},
		{"{%s}:assessments", field, published, false},
		{"{%s}:details", field, published, false},
		{"{%s}:audit:p", entry, func(s *stages.RedisStore, _ *evidence.RedisLedger) error { _, err := s.History(ctx, "p"); return err }, false},
		{"{%s:p}:ledger:e:changes", member, slots, false},
		{"{%s:p}:ledger:e:slot:7", field, slots, false},
		{"{%s:p}:ledger:e:slot:7", hash, slots, false},
		{"{%s:p}:ledger:e:hour:7", hour, func(_ *stages.RedisStore, l *evidence.RedisLedger) error {
			_, err := l.Hours(ctx, id, 6, 8)
			return err
		}, false},
		{"{%s:p}:ledger:e:top:" + evidence.KeyKind(0).String(), member, func(_ *stages.RedisStore, l *evidence.RedisLedger) error { _, err := l.Top(ctx, id, 0); return err }, false},
	} {
		name := namespace()
		key := "shadowlimit1:" + fmt.Sprintf(tt.key, name)
		store, ledger := stages.NewRedisStore(client, name), evidence.NewRedisLedger(client, name)
		if strings.Contains(tt.key, "slot") {
			client.ZAdd(ctx, strings.Replace(key, "slot:7", "changes", 1), redis.Z{Score: 7, Member: "7"})
		}
		if err := tt.fill(key); err != nil {
			t.Fatal(err)
		}

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := tt.read(store, ledger)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
			t.Errorf("%s: reading it takes %d MB", key, took>>20)
		}
		if tt.heals && err != nil || !tt.heals && (!errors.Is(err, redisread.ErrLarge) || !strings.Contains(err.Error(), key)) {
			t.Errorf("%s: %.300v", key, err)
		}
		if strings.Contains(tt.key, "states") {
			checkGarbageState(t, store)
		}
		client.FlushAll(ctx)
	}
}

// checkGarbageState holds that a state which is too large counts as rolled back, and takes no other policy with it.
func checkGarbageState(t *testing.T, store *stages.RedisStore) {
	t.Helper()
	sound := stages.State{Version: stages.Version{Term: 1, Seq: 2}, Stage: stages.Promoted, Fingerprint: "e"}
	if err := store.Put(t.Context(), "q", sound, stages.Condition{}); err != nil {
		t.Fatal(err)
	}
	states, err := store.States(t.Context(), []string{"p", "q"})
	if err != nil || states[0].Stage != stages.RolledBack || states[1].Stage != stages.Promoted {
		t.Errorf("%v, %v", states, err)
	}
}
