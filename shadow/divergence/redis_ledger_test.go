package divergence_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

var ofPolicy = divergence.ID{Policy: "p", Epoch: "e"}

const keysOfPolicy = "shadowlimit1:{test:p}:ledger:e:"

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
