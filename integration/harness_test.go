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
	"runtime/pprof"
	"slices"
	"strconv"
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

// scripts counts the scripts that a client sends, and the writes that carry them.
type scripts struct{ calls, writes atomic.Int64 }

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
	n := bytes.Count(b, []byte("\r\nevalsha\r\n")) + bytes.Count(b, []byte("\r\neval\r\n"))
	if bytes.Contains(b, []byte(":states")) {
		n-- // a heartbeat
	}
	if n > 0 {
		c.scripts.calls.Add(int64(n))
		c.scripts.writes.Add(1)
	}
	return c.Conn.Write(b)
}

// many returns a file with n policies, all of which match every request.
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
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) }) // fails where the server is deaf, which is no failure of the test
	return h
}

// A check costs one script for both sides of its policy, and all checks of a request
// travel in one write.
func TestOneCommandAPolicyAndOneWrite(t *testing.T) {
	client, sent := counted(t, privateServer(t), time.Second)
	for _, n := range []int{1, 2, 7} {
		h := harnessOf(t, shadow.Config{Policies: many(t, namespace(), n), Redis: client})
		r := &policies.Request{User: "alice"}
		h.Decide(t.Context(), r) // the server learns the script
		calls, writes := sent.calls.Load(), sent.writes.Load()

		const requests = 10
		for range requests {
			if d := h.Decide(t.Context(), r); d.Fallback || !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}

		calls, writes = sent.calls.Load()-calls, sent.writes.Load()-writes
		if calls != int64(requests*n) || writes != requests {
			t.Errorf("%d policies: %d scripts in %d writes for %d requests", n, calls, writes, requests)
		}
	}
}

// A dead store is asked five times. Then its breaker is open, and on_store_failure
// decides without asking it.
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

// A candidate whose store hangs takes a bounded number of goroutines, and none once the
// harness is closed. The goroutines of the harness are counted by a label, which a
// goroutine inherits from the one that starts it: those of other tests do not count.
func TestHangingCandidateIsBounded(t *testing.T) {
	const most = 20 // the fleet's loops, four workers of the async queue, and the connections that they open
	deaf, set := deafServer(t), watched(t, namespace(), "{ store: slow, algorithm: gcra, limit: 3, window: 1m }")

	pprof.Do(t.Context(), pprof.Labels("test", t.Name()), func(ctx context.Context) {
		client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{deaf}}, 20*time.Millisecond))
		h := harnessOf(t, shadow.Config{Policies: set, Stores: map[string]redis.UniversalClient{"slow": client}})

		for n := range 20000 {
			h.Decide(ctx, userRequest(fmt.Sprint("user-", n)))
			if n%1000 > 0 {
				continue
			}
			if started, profile := labelled(t); started > most {
				t.Fatalf("request %d: %d goroutines of the harness, want %d at most:\n%s", n, started, most, profile)
			}
		}

		h.Close(ctx)
		client.Close()
		awaitNone(t)
	})
}

// awaitNone waits until every labelled goroutine has ended: a dial that has begun ends
// with its timeout.
func awaitNone(t *testing.T) {
	t.Helper()

	deadline := time.After(impatience)
	for tick := time.Tick(10 * time.Millisecond); ; {
		left, profile := labelled(t)
		if left == 0 {
			return
		}

		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%d goroutines outlive the harness:\n%s", left, profile)
		}
	}
}

// labelled counts the goroutines with the label of a test, without the test itself. The
// profile has a line with a count for each distinct stack, and a line with its labels
// behind it.
func labelled(t *testing.T) (n int, profile string) {
	t.Helper()

	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}

	stacks, label := 0, fmt.Sprintf("%q:%q", "test", t.Name())
	for line := range strings.Lines(text.String()) {
		if count, _, found := strings.Cut(line, " @ "); found {
			stacks, _ = strconv.Atoi(count)
		}
		if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, label) {
			n += stacks
		}
	}

	return n - 1, text.String()
}

// userRequest is a request that the policy of watched charges.
func userRequest(user string) *policies.Request {
	return &policies.Request{RawQuery: "cost=1", Headers: http.Header{"X-User": {user}}}
}

// BenchmarkLatency measures the latency that a candidate adds to a request, also in the
// worst case, a store that does not answer.
func BenchmarkLatency(b *testing.B) {
	addr := privateServer(b)
	for _, candidate := range []struct{ name, side string }{
		{"none", ""},
		{"fused", "{ algorithm: gcra, limit: 3, window: 1m }"},
		{"other-store", "{ store: other, algorithm: gcra, limit: 3, window: 1m }"},
		{"black-hole", "{ store: hole, algorithm: gcra, limit: 3, window: 1m }"},
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

			served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
			handler := httplimit.New(h, httplimit.Config{})(served)
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

// BenchmarkDeadStore measures a decision while the breaker is open.
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
