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

// inHandler runs a function in a handler of a route, with a request through the limits alone: fiber's own cost is not the adapter's.
func inHandler(h *shadow.Harness, run func(through func())) {
	app := fiber.New()
	app.Get("/items/:id", func(c fiber.Ctx) error {
		limited := New(h, Config{})(func(fiber.Ctx) error { return nil })
		run(func() { limited(c) })
		return nil
	})

	fast := &fasthttp.RequestCtx{}
	fast.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}, nil)
	fast.Request.SetRequestURI("http://shop/items/1")
	fast.Request.Header.Set("X-Tenant", "acme")
	app.Handler()(fast)
}

func BenchmarkAdapter(b *testing.B) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(b, key)
		inHandler(h, func(through func()) { adaptertest.Bench(b, key, h, through) })
	}
}

func TestAllocations(t *testing.T) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(t, key)
		inHandler(h, func(through func()) { adaptertest.CheckAllocations(t, h, through) })
	}
}
