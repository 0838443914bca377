//go:build !race

package echolimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// keys are the two ways in which policies most often tell clients apart.
var keys = []string{"request.ip", adaptertest.HeaderKey}

// request returns a request through the middleware alone: echo's own cost is not the adapter's.
func request(h *shadow.Harness) func() {
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.Header.Set("X-Tenant", "acme")
	e := echo.New()
	c := e.NewContext(r, httptest.NewRecorder())
	c.SetPath("/items/:id")
	limited := New(h, Config{})(func(*echo.Context) error { return nil })
	return func() { limited(c) }
}

func BenchmarkAdapter(b *testing.B) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(b, key)
		adaptertest.Bench(b, key, h, request(h))
	}
}

func TestAllocations(t *testing.T) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(t, key)
		adaptertest.CheckAllocations(t, h, request(h))
	}
}
