package shadow_test

import (
	"context"
	"math/rand/v2"
	"net"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// eachFile has a policy that matches some requests, and one whose limit fails for some.
const eachFile = `
version: 1
name: each
policies:
  - name: per-user
    when: request.user != "none"
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 3, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
  - name: per-route
    when: request.route != "none"
    key: request.route
    on_error: deny
    authoritative: { algorithm: gcra, limit: 'int(request.path)', window: 1m }
`

// eachRequest draws a request. Some of a call have the same keys.
func eachRequest(draw *rand.Rand) *policies.Request {
	cost := draw.Int64N(3)
	return &policies.Request{
		User:  []string{"ann", "bob", "none"}[draw.IntN(3)],
		Route: []string{"/a", "/b", "none"}[draw.IntN(3)],
		Path:  []string{"2", "3", "no number"}[draw.IntN(3)],
		Cost:  &cost,
	}
}

// Requests that come together are decided as one by one, and the joined decision denies if one of them is denied.
func TestDecideEachDecidesAsDecide(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cfg := shadow.Config{Clock: func() time.Time { return now }}
	together, alone := open(t, eachFile, cfg), open(t, eachFile, cfg)
	draw := rand.New(rand.NewPCG(1, 2))

	var want shadow.Decision // of the request before, which is overwritten
	for call := range 2000 {
		now = now.Add(time.Duration(draw.IntN(300)) * time.Second)
		requests := make([]*policies.Request, draw.IntN(6))
		for i := range requests {
			requests[i] = eachRequest(draw)
		}

		got := make([]shadow.Decision, len(requests))
		all := together.DecideEach(ctx(t), requests, got)
		allowed := true
		for i, r := range requests {
			alone.DecideInto(ctx(t), r, &want)
			if !reflect.DeepEqual(got[i], want) {
				t.Fatalf("call %d, request %d: %+v, want %+v", call, i, got[i], want)
			}
			allowed = allowed && want.Allowed
		}
		if all.Allowed != allowed {
			t.Fatalf("call %d: all are %t, want %t", call, all.Allowed, allowed)
		}
	}
}

// writes counts what is sent to Redis: a pipeline is one write.
type writes struct{ atomic.Int64 }

func (w *writes) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (w *writes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.Add(1)
		return next(ctx, cmd)
	}
}

func (w *writes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.Add(1)
		return next(ctx, cmds)
	}
}

// Twenty requests cost one write. The fleet's own store is another one, so that its goroutines do not count.
func TestDecideEachWritesOnce(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{server.Addr()}}, time.Minute))
	t.Cleanup(func() { client.Close() })
	const rest = ", limit: 9, window: 1h, store: next}"
	h := open(t, withSides("{algorithm: fixed_window"+rest, "{algorithm: gcra"+rest), shadow.Config{Stores: elsewhere(client)})

	requests := make([]*policies.Request, 20)
	for i := range requests {
		requests[i] = &policies.Request{User: "u" + strconv.Itoa(i/2)}
	}
	into := make([]shadow.Decision, len(requests))
	h.DecideEach(ctx(t), requests, into) // loads the scripts

	var sent writes
	client.AddHook(&sent)
	h.DecideEach(ctx(t), requests, into)
	if n := sent.Load(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	for i, d := range into {
		if want := int64(9 - 2 - 1 - i%2); d.Fallback || d.Remaining != want {
			t.Errorf("request %d: %+v, want %d remaining", i, d.Decision, want)
		}
	}
}
