package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// HeaderKey is a key of policies that makes an adapter give them the headers.
const HeaderKey = `request.headers[?"x-tenant"].orValue("none")`

// benched never denies, so that all requests of a benchmark cost the same.
const benched = `
version: 1
name: bench
policies:
  - name: per-client
    when: request.method in ["GET", "POST"]
    key: KEY
    authoritative: { algorithm: fixed_window, limit: 1000000000, window: 1m }
    candidate: { algorithm: token_bucket, limit: 1000000000, window: 1m, burst: 1000000 }
`

// BenchHarness returns a harness for benchmarks, whose policy has the key.
func BenchHarness(t testing.TB, key string) *shadow.Harness {
	return harnessOf(t, strings.ReplaceAll(benched, "KEY", key))
}

func harnessOf(t testing.TB, text string) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	h, err := shadow.New(shadow.Config{Policies: set})
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// view fills what policies see of the request of benchmarks.
func view(p *policies.Request) {
	p.Method = "GET"
	p.Route = "/items/{id}"
	p.IP = "192.0.2.1"
	p.Headers = headers
	p.Time = began
}

var (
	headers = http.Header{"X-Tenant": {"acme"}, "User-Agent": {"bench"}}
	began   = time.Now()
)

// decide is the decision alone, which adapters are compared with.
func decide(h *shadow.Harness) func() {
	p := new(policies.Request)
	return func() {
		p.Reset()
		view(p)
		h.Decide(context.Background(), p)
	}
}

// Bench runs a benchmark of a request through an adapter beside one of the decision alone.
func Bench(b *testing.B, name string, h *shadow.Harness, through func()) {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "request."), "[")
	for part, run := range map[string]func(){"decide": decide(h), "adapter": through} {
		b.Run(name+"/"+part, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// CheckAllocations fails if a request through an adapter costs more than three allocations above the decision. The race
// detector empties pools at random, so tests that call it are not built with it.
func CheckAllocations(t *testing.T, h *shadow.Harness, through func()) {
	t.Helper()
	bare := testing.AllocsPerRun(1000, decide(h))
	if n := testing.AllocsPerRun(1000, through); n > bare+3 {
		t.Errorf("%g allocations, %g of them the decision's: at most 3 more", n, bare)
	}
}

// once allows one request, whatever its route.
const once = `
version: 1
name: once
policies:
  - { name: once, key: '"all"', authoritative: { algorithm: fixed_window_anchored, limit: 1, window: 1h } }
`

// OnceHarness returns a harness that allows one request.
func OnceHarness(t testing.TB) *shadow.Harness { return harnessOf(t, once) }

// RouteHarness returns a harness whose policy reads routes.
func RouteHarness(t testing.TB) *shadow.Harness {
	return harnessOf(t, strings.ReplaceAll(once, "key:", "when: 'request.route == \"/items/:id\"', key:"))
}

// Summary is the status and the body of a response.
func Summary(w *httptest.ResponseRecorder) string { return fmt.Sprintf("%d %s", w.Code, w.Body) }
