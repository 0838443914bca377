//go:build !race

package fiberlimit

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// keys are the two ways in which policies most often tell clients apart.
var keys = []string{"request.ip", adaptertest.HeaderKey}

// request returns a request through the limits alone: fiber's own cost is not the adapter's.
func request(h *shadow.Harness) func() {
	fast := &fasthttp.RequestCtx{}
	fast.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}, nil)
	fast.Request.SetRequestURI("http://shop/items/1")
	fast.Request.Header.Set("X-Tenant", "acme")
	c := fiber.New().AcquireCtx(fast)
	limited := New(h, Config{})(func(fiber.Ctx) error { return nil })
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
