package divergence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

var ofPolicy = divergence.ID{Policy: "p", Epoch: "e"}

const keysOfPolicy = "shadowlimit:{test:p}:ledger:e:"

// between is a hook that sends the commands of a pipeline one by one, does something before each, and counts them.
type between struct {
	client   *redis.Client // without the hook
	do       func()
	commands map[string]int
}

func (h *between) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *between) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if h.do != nil {
				h.do()
			}
			h.commands[cmd.Name()]++
			if err := h.client.Process(ctx, cmd); err != nil {
				return err
			}
		}
		return nil
	}
}

// hooked returns a ledger whose pipelines are interrupted, and a client that is not.
func hooked(t *testing.T) (*divergence.RedisLedger, *between) {
	addr := miniredis.RunT(t).Addr()
	plain, client := redis.NewClient(&redis.Options{Addr: addr}), redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { plain.Close(); client.Close() })
	h := &between{client: plain, commands: map[string]int{}}
	client.AddHook(h)
	return divergence.NewRedisLedger(client, "test"), h
}

// A fold and a write between any two commands of a read neither add a batch to the history nor take one away.
func TestFoldBetweenTheCommandsOfARead(t *testing.T) {
	for at := range 6 {
		ledger, hook := hooked(t)
		others := divergence.NewRedisLedger(hook.client, "test")
		judge, r := divergence.NewReader(others, ofPolicy, noon), divergence.NewRecorder(nil)
		now := noon

		// Each minute the instance counts, asks what is folded, and writes.
		write := func() {
			now = now.Add(time.Minute)
			ack, err := others.Acked(t.Context(), ofPolicy, divergence.Writer{Instance: "a"})
			if err != nil {
				t.Fatal(err)
			}
			r.Acknowledge(0, ack)
			s := r.Snapshot(now)
			if err := others.Write(t.Context(), ofPolicy, "a", s); err != nil {
				t.Fatal(err)
			}
			r.Commit(s, now)
		}
		const comparisons = 3
		for range comparisons {
			r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
			write()
		}

		// The reader's first command is of another read.
		n := 0
		hook.do = func() {
			if n++; n == at+2 {
				if err := judge.Fold(t.Context(), now, []string{"a"}); err != nil {
					t.Fatal(err)
				}
				write()
			}
		}
		h, err := divergence.NewReader(ledger, ofPolicy, noon).History(t.Context(), now)
		if got := h.Total().Comparisons(); err != nil || got != comparisons {
			t.Errorf("a fold before command %d: %d comparisons and %v, want %d", at, got, err, comparisons)
		}
		if n < at+2 {
			t.Errorf("the read had %d commands, and the fold was to be before number %d", n, at+2)
		}
	}
}

// asEarlier reads an hour as the release before the first format does: all fields are instances, and add up.
func asEarlier(t *testing.T, client *redis.Client, hour int64) (sum int64, fields []string) {
	t.Helper()
	all, err := client.HGetAll(t.Context(), fmt.Sprint(keysOfPolicy, "hour:", hour)).Result()
	if err != nil {
		t.Fatal(err)
	}

	for field, text := range all {
		var h struct {
			Minutes []struct {
				Tally []int64 `json:"t"`
			} `json:"minutes"`
		}
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}

		for _, m := range h.Minutes {
			sum += m.Tally[divergence.AgreeAllow]
		}
		fields = append(fields, field)
	}
	return sum, fields
}

// Releases before the first format write their hours beside the fleet's. Both releases count both, and when an hour is closed
// only the fleet's entry is left of it.
func TestReleasesShareALedger(t *testing.T) {
	ledger, hook := hooked(t)
	judge, r := divergence.NewReader(ledger, ofPolicy, noon), divergence.NewRecorder(nil)
	hour := noon.Unix() / divergence.SecondsPerHour
	earlier := func() {
		entry := `{"live":1,"minutes":[{"m":0,"t":[10,0,0,0,0,0,0,0,0]}],"a_later_field":[1]}`
		if err := hook.client.HSet(t.Context(), fmt.Sprint(keysOfPolicy, "hour:", hour), "earlier#3", entry).Err(); err != nil {
			t.Fatal(err)
		}
	}

	earlier()
	for m := range 3 {
		now := noon.Add(time.Duration(m) * time.Minute)
		r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		s := r.Snapshot(now)
		if err := ledger.Write(t.Context(), ofPolicy, "a", s); err != nil {
			t.Fatal(err)
		}
		r.Commit(s, now)
		foldAndTell(t, ledger, judge, r, ofPolicy, now)
	}

	want := func(when string, now time.Time, comparisons, asEarlierSeen int64, entries int) {
		t.Helper()
		h, err := judge.History(t.Context(), now)
		if got := h.Total().Comparisons(); err != nil || got != comparisons {
			t.Errorf("%s: %d comparisons and %v, want %d", when, got, err, comparisons)
		}
		if seen, fields := asEarlier(t, hook.client, hour); seen != asEarlierSeen || len(fields) != entries {
			t.Errorf("%s: an earlier release sees %d in %v, want %d in %d", when, seen, fields, asEarlierSeen, entries)
		}
	}
	want("in the hour", noon.Add(2*time.Minute), 13, 13, 2)

	later := noon.Add(6 * time.Hour)
	foldAndTell(t, ledger, judge, r, ofPolicy, later)
	want("the hour is closed", later, 13, 13, 1)

	// An instance of the earlier release was suspended, and writes its old hours again.
	earlier()
	judge = divergence.NewReader(ledger, ofPolicy, noon)
	want("it is written again", later, 13, 23, 2)
}

// What has not changed is not written, and a key's time to live is set once an hour, also for many writes.
func TestWritesAreFew(t *testing.T) {
	ledger, hook := hooked(t)
	r := divergence.NewRecorder(nil)
	for n := range 40 {
		now := noon.Add(time.Duration(n) * 15 * time.Second)
		if n == 0 {
			r.Observe("k", 7, now, observed(divergence.NewlyDenied), &divergence.Setting{Cost: 1, Enforced: 1})
		}
		s := r.Snapshot(now)
		if err := ledger.Write(t.Context(), ofPolicy, "a", s); err != nil {
			t.Fatal(err)
		}
		r.Commit(s, now)
	}

	// The record each time, the ticks and one list once; and the times to live of these, and of two sets of keys.
	if got := hook.commands; got["hset"] != 40+1+1 || got["expire"] != 5 || got["pfadd"] != 2 {
		t.Errorf("commands %v, want 42 hset, 5 expire and 2 pfadd", got)
	}
	keys, err := hook.client.Keys(t.Context(), keysOfPolicy+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if ttl := hook.client.TTL(t.Context(), key).Val(); ttl <= 0 || strings.Contains(key, "ticks") != (ttl <= 2*time.Hour) {
			t.Errorf("%s lives for %s", key, ttl)
		}
	}
}

// A judge of an earlier format leaves the folds and records of a later one alone: its entries have no place for all counts.
func TestLaterFormatsAreNotFolded(t *testing.T) {
	ledger, hook := hooked(t)
	r := divergence.NewRecorder(nil)
	r.Observe("k", 7, noon, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
	s := r.Snapshot(noon)
	s.Record.Batch, s.Record.Sealed, s.Record.Open, s.Record.Format = 1, s.Record.Open, nil, divergence.Format+1
	if err := ledger.Write(t.Context(), ofPolicy, "a", s); err != nil {
		t.Fatal(err)
	}

	judge := divergence.NewReader(ledger, ofPolicy, noon)
	if err := judge.Fold(t.Context(), noon, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if _, fields := asEarlier(t, hook.client, noon.Unix()/divergence.SecondsPerHour); len(fields) > 0 {
		t.Errorf("the fleet's hour has %v, want no entry", fields)
	}
	if h, err := judge.History(t.Context(), noon); err != nil || h.Total().Comparisons() != 1 {
		t.Errorf("%d comparisons and %v, want the one that is in the record", h.Total().Comparisons(), err)
	}
}
