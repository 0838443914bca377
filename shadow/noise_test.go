package shadow_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// waits counts the commands that requests wait for: those with a context of theirs.
type waits struct{ atomic.Int64 }

type ofRequest struct{}

func (w *waits) note(ctx context.Context) {
	if ctx.Value(ofRequest{}) != nil {
		w.Add(1)
	}
}

// DialHook implements redis.Hook.
func (w *waits) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (w *waits) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.note(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *waits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.note(ctx)
		return next(ctx, cmds)
	}
}

// A request waits for the store of the enforced side and for no other store, not even to
// measure the noise floor: after a promotion the former store may be slow or gone.
func TestNoRequestWaitsForTheStoreThatWasLeft(t *testing.T) {
	for name, text := range map[string]string{
		"to another store":     moving,
		"to a foreign limiter": strings.Replace(file, "{ algorithm: gcra, limit: 1, window: 1h }", "{ limiter: mine }", 1),
	} {
		client, first := redisAt(t, miniredis.RunT(t).Addr()), new(waits)
		client.AddHook(first)
		h := open(t, text, shadow.Config{
			Redis: client, Stores: elsewhere(redisAt(t, miniredis.RunT(t).Addr())),
			Limiters: map[string]shadow.Limiter{"mine": shadow.AllowFunc(func(string) bool { return true })},
		})

		marked := context.WithValue(ctx(t), ofRequest{}, true)
		for _, promoted := range []bool{false, true} {
			first.Store(0)
			for n := range 400 {
				h.Decide(marked, &policies.Request{User: fmt.Sprint("user-", n)})
			}

			if got := first.Load(); got == 0 != promoted {
				t.Errorf("%s, promoted %v: 400 requests waited %d times for the first store", name, promoted, got)
			}
			if !promoted {
				promote(t, h, client)
			}
		}
	}
}

// A reload that ends or begins a sample keeps the policy's progress, and with it the noise
// floor's.
func TestNoiseFloorFollowsTheSample(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	stores := elsewhere(redisAt(t, miniredis.RunT(t).Addr()))
	h := open(t, moving+"    promotion: { sample: 25% }\n", shadow.Config{Redis: client, Stores: stores})
	for _, step := range []struct {
		text string
		want bool
	}{{"", false}, {moving, true}, {moving + "    promotion: { sample: 25% }\n", false}, {moving, true}} {
		if step.text != "" {
			set, err := policies.Load("t", []byte(step.text))
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Reload(set); err != nil {
				t.Fatal(err)
			}
		}

		before := noiseIn(t, client)
		for n := range 400 {
			ask(t, h, fmt.Sprint("user-", n))
		}

		syncNow(t, h)
		after := noiseIn(t, client)
		if got := after.Comparisons() > before.Comparisons(); got != step.want || after.Uncompared() > 0 {
			t.Errorf("with %q: noise %v after %v, want it measured: %v", step.text, after, before, step.want)
		}
	}
}

// A policy that is removed and comes back unchanged goes on with the evidence of its noise
// floor: the new recorder writes beside the first one's entries, not over them.
func TestNoiseFloorOutlivesARemovedPolicy(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	two := moving + strings.Replace(moving[strings.Index(moving, "  - name"):], "per-user", "other", 1)
	h := open(t, two, shadow.Config{Redis: client, Stores: elsewhere(redisAt(t, miniredis.RunT(t).Addr()))})
	askAll := func() {
		for n := range 400 {
			ask(t, h, fmt.Sprint("user-", n))
		}
		syncNow(t, h)
	}

	askAll()
	before := noiseIn(t, client)
	for _, text := range []string{strings.Replace(two, "per-user", "renamed", 1), two} {
		set, err := policies.Load("t", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Reload(set); err != nil {
			t.Fatal(err)
		}
		syncNow(t, h)
	}

	askAll()
	after := noiseIn(t, client)
	if want := 2 * before.Comparisons(); before.Comparisons() == 0 || after.Comparisons() != want {
		t.Errorf("noise %v, then %v: want twice as many comparisons", before, after)
	}
}

// noiseIn returns the ledger's counts of the policy's noise floor.
func noiseIn(t *testing.T, client redis.UniversalClient) divergence.Tally {
	t.Helper()
	states, err := promotion.NewRedisStore(client, name).States(ctx(t), []string{policy})
	if err != nil {
		t.Fatal(err)
	}

	now := time.Now()
	id := promotion.NoiseID(states[0].LedgerID(policy))
	h, err := divergence.NewReader(ledgerOf(client), id, now.Add(-time.Minute)).History(ctx(t), now)
	if err != nil {
		t.Fatal(err)
	}
	return h.Total()
}
