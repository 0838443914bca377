package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// orders lets a tenant have two orders, and the candidate one, which no answer shows.
const orders = `
version: 1
name: orders
policies:
  - name: per-tenant
    when: request.method == "POST" && request.route == "/orders/{id}" && request.host == "shop.example"
    key: ['request.headers[?"x-tenant"].orValue("none")', request.ip, request.user, 'request.query[?"q"].orValue("")']
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 2h }
`

// harnessOf returns a harness, whose clock stands still unless the test has another.
func harnessOf(t testing.TB, text string, clock func() time.Time) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := shadow.New(shadow.Config{Policies: set, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func still() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func orderRoute(path string) string {
	if id, found := strings.CutPrefix(path, "/orders/"); found && id != "" && !strings.Contains(id, "/") {
		return "/orders/{id}"
	}
	return ""
}

// newServer returns a server of the orders. The change may set what a test is about.
func newServer(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Limiter: harnessOf(t, orders, still), Route: orderRoute, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// ask sends a question from an address.
func ask(s *Server, r *http.Request, from string) *httptest.ResponseRecorder {
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

const (
	here  = "127.0.0.1:999"
	there = "192.0.2.7:999"
)

// told are the fields of a response that its client sees, sorted.
func told(h http.Header) string {
	var list []string
	for name, values := range h {
		if strings.Contains(name, "Ratelimit") || name == "Retry-After" {
			list = append(list, fmt.Sprint(name, ": ", strings.Join(values, " | ")))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

const (
	policyField = `Ratelimit-Policy: "per-tenant";q=2;w=3600`
	first       = policyField + `, Ratelimit: "per-tenant";r=1;t=3600`
	second      = policyField + `, Ratelimit: "per-tenant";r=0;t=3600`
	denied      = second + `, Retry-After: 3600`
)
