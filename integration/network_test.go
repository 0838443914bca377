package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// sameTwice is a file with one policy whose two sides are the same limiter. A fallback differs
// from what the store decides: it denies.
func sameTwice(t *testing.T, limit int) *policies.Set {
	t.Helper()

	set, err := policies.Load("twins.yaml", []byte(fmt.Sprintf(`
version: 1
name: %s
policies:
  - name: per-user
    key: request.user
    authoritative: { id: one, algorithm: fixed_window_anchored, limit: %d, window: 1h }
    candidate: { id: two, algorithm: fixed_window_anchored, limit: %[2]d, window: 1h }
    on_store_failure: deny
`, namespace(), limit)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// outcomes counts comparisons. It is an observer.
type outcomes struct {
	mu     sync.Mutex
	counts map[shadow.Outcome]int
}

func (o *outcomes) observe(c shadow.Comparison) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = map[shadow.Outcome]int{}
	}
	o.counts[c.Outcome]++
}

func (o *outcomes) of(list ...shadow.Outcome) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, outcome := range list {
		n += o.counts[outcome]
	}
	return n
}

// A network that is slow, and in time, fails nothing: every request has the answer that is
// its own, and is compared.
func TestSlowNetworkIsNoFailure(t *testing.T) {
	const requests = 20
	proxy, addr := startProxy(t, privateServer(t))
	for name, m := range map[string]manner{"30 ms": lag, "byte by byte": slice} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, impatience))
			t.Cleanup(func() { client.Close() })
			var seen outcomes
			h := harnessOf(t, shadow.Config{Policies: sameTwice(t, requests), Redis: client, Observer: seen.observe})

			proxy.set(m)
			defer proxy.set(passOn)
			begin := time.Now()
			for n := range requests {
				d := h.Decide(t.Context(), &policies.Request{User: "alice"})
				if want := int64(requests - 1 - n); d.Fallback || !d.Allowed || d.Remaining != want {
					t.Fatalf("request %d: %+v, want %d remaining", n, d, want)
				}
			}

			t.Logf("%s a request", (time.Since(begin) / requests).Round(time.Millisecond))
			if n := seen.of(shadow.AgreeAllow); n != requests {
				t.Errorf("%d of %d requests were compared", n, requests)
			}
		})
	}
}
