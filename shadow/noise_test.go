package shadow_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// waits counts what requests wait for: what a client is asked with their context.
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

// A request waits for the store of the side that is enforced and for no other, not
// for the noise floor's sake either: after a promotion the store that was left may
// be slow or gone.
func TestNoRequestWaitsForTheStoreThatWasLeft(t *testing.T) {
	for name, text := range map[string]string{
		"to another store":             moving,
		"to a limiter of the user's own": strings.Replace(file, "{ algorithm: gcra, limit: 1, window: 1h }", "{ limiter: mine }", 1),
	} {
		client, first := redisAt(t, miniredis.RunT(t).Addr()), new(waits)
		client.AddHook(first)
		h := open(t, text, shadow.Config{
			Redis: client, Stores: map[string]redis.UniversalClient{"next": redisAt(t, miniredis.RunT(t).Addr())},
			Limiters: map[string]shadow.Limiter{"mine": shadow.AllowFunc(func(string) bool { return true })},
		})
		marked := context.WithValue(ctx(t), ofRequest{}, true)
		for _, want := range []int64{400, 0} { // in shadow, and promoted
			first.Store(0)
			for n := range 400 {
				h.Decide(marked, &policies.Request{User: fmt.Sprint("user-", n)})
			}
			if got := first.Load(); got != want {
				t.Errorf("%s: 400 requests waited %d times for the first store, want %d", name, got, want)
			}
			if want > 0 {
				promote(t, h, client)
			}
		}
	}
}
