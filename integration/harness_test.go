package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// scripts counts the scripts that a client sends, and in how many writes.
type scripts struct{ calls, writes atomic.Int64 }

// counted returns a client that counts.
func counted(t testing.TB, addr string, budget time.Duration) (*redis.Client, *scripts) {
	t.Helper()

	s := &scripts{}

	options := lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, budget)
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return countingConn{conn, s}, nil
	}

	client := redis.NewUniversalClient(options).(*redis.Client)
	t.Cleanup(func() { client.Close() })
	return client, s
}

type countingConn struct {
	net.Conn
	scripts *scripts
}

func (c countingConn) Write(b []byte) (int, error) {
	if n := bytes.Count(b, []byte("\r\nevalsha\r\n")) + bytes.Count(b, []byte("\r\neval\r\n")); n > 0 {
		c.scripts.calls.Add(int64(n))
		c.scripts.writes.Add(1)
	}
	return c.Conn.Write(b)
}

// many is a file with so many policies, all of which match.
func many(t testing.TB, name string, n int) *policies.Set {
	t.Helper()

	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nname: %s\npolicies:\n", name)
	for i := range n {
		fmt.Fprintf(&b, `
  - name: policy-%d
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1m }
    candidate: { algorithm: gcra, limit: 1000000, window: 1m }
`, i)
	}

	set, err := policies.Load("many.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}

	return set
}

func harnessOf(t testing.TB, cfg shadow.Config) *shadow.Harness {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	h, err := shadow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) }) // a deaf server is told nothing
	return h
}

// A charged policy costs one script for both its sides, and all policies of a
// request travel in one write.
func TestOneCommandAPolicyAndOneWrite(t *testing.T) {
	client, sent := counted(t, privateServer(t), time.Second)
	for _, n := range []int{1, 2, 7} {
		h := harnessOf(t, shadow.Config{Policies: many(t, namespace(), n), Redis: client})
		r := &policies.Request{User: "alice"}
		h.Decide(t.Context(), r) // the server learns the script
		before := [2]int64{sent.calls.Load(), sent.writes.Load()}

		const requests = 10
		for range requests {
			if d := h.Decide(t.Context(), r); d.Fallback || !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}

		if calls, writes := sent.calls.Load()-before[0], sent.writes.Load()-before[1]; calls != int64(requests*n) || writes != requests {
			t.Errorf("%d policies: %d scripts in %d writes for %d requests", n, calls, writes, requests)
		}
	}
}

// A store that is dead is asked five times, and then its rule answers by itself.
func TestDeadStoreIsAskedFiveTimes(t *testing.T) {
	client, sent := counted(t, deafServer(t), 20*time.Millisecond)
	h := harnessOf(t, shadow.Config{Policies: many(t, namespace(), 1), Redis: client})
	for n := range 200 {
		if d := h.Decide(t.Context(), &policies.Request{User: "alice"}); !d.Allowed || !d.Fallback {
			t.Fatalf("request %d: %+v", n, d)
		}
	}

	if n := sent.calls.Load(); n > 5 {
		t.Errorf("a server that does not answer was sent %d scripts", n)
	}
}

// A candidate whose store hangs takes a bounded part of the process.
func TestHangingCandidateIsBounded(t *testing.T) {
	h := harnessOf(t, shadow.Config{
		Policies: watched(t, namespace(), "{ store: slow, algorithm: gcra, limit: 3, window: 1m }"),
		Stores:   map[string]redis.UniversalClient{"slow": redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{deafServer(t)}}, 20*time.Millisecond))},
	})

	before := runtime.NumGoroutine()
	for n := range 20000 {
		h.Decide(t.Context(), userRequest(fmt.Sprint("user-", n)))
		if runtime.NumGoroutine() <= before+20 {
			continue
		}
		if ours, stacks := harnessGoroutines(); ours > 20 { // not what a test before has left behind
			t.Fatalf("%d goroutines of the harness and of Redis clients:\n%s", ours, stacks)
		}
	}
}

// harnessGoroutines counts the goroutines that are somewhere in the harness or in a
// Redis client.
func harnessGoroutines() (n int, stacks string) {
	all := make([]byte, 1<<20)
	stacks = string(all[:runtime.Stack(all, true)])
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "shadowlimit/shadow.") || strings.Contains(stack, "redis/go-redis") {
			n++
		}
	}
	return n, stacks
}

// userRequest is one that the watched policy charges.
func userRequest(user string) *policies.Request {
	return &policies.Request{RawQuery: "cost=1", Headers: http.Header{"X-User": {user}}}
}

// BenchmarkLatency shows what a candidate costs a request, in the worst cases too.
func BenchmarkLatency(b *testing.B) {
	addr := privateServer(b)
	for _, candidate := range []struct{ name, side string }{
		{"none", ""}, {"fused", "{ algorithm: gcra, limit: 3, window: 1m }"},
		{"other-store", "{ store: other, algorithm: gcra, limit: 3, window: 1m }"}, {"black-hole", "{ store: hole, algorithm: gcra, limit: 3, window: 1m }"},
	} {
		b.Run(candidate.name, func(b *testing.B) {
			open := func(addr string) redis.UniversalClient {
				client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, 0))
				b.Cleanup(func() { client.Close() })
				return client
			}

			h := harnessOf(b, shadow.Config{
				Policies: watched(b, namespace(), candidate.side), Redis: open(addr),
				Stores: map[string]redis.UniversalClient{"other": open(addr), "hole": open(deafServer(b))},
			})

			handler := httplimit.New(h, httplimit.Config{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") }))
			q := httptest.NewRequest("GET", "/?cost=1", nil)
			q.Header.Set("X-User", "alice")
			took := make([]time.Duration, 0, b.N)

			for b.Loop() {
				start := time.Now()
				handler.ServeHTTP(httptest.NewRecorder(), q)
				took = append(took, time.Since(start))
			}

			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

// BenchmarkDeadStore is a decision while the breaker is open.
func BenchmarkDeadStore(b *testing.B) {
	client, _ := counted(b, deafServer(b), 20*time.Millisecond)
	h := harnessOf(b, shadow.Config{Policies: many(b, namespace(), 1), Redis: client})
	r := &policies.Request{User: "alice"}

	for range 10 {
		h.Decide(b.Context(), r)
	}

	b.ReportAllocs()
	for b.Loop() {
		h.Decide(b.Context(), r)
	}
}
