package fiberlimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/shadowlimit/shadowlimit/adapters/fiberlimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func served(c fiber.Ctx) error { return c.SendString("served") }

// As middleware the limits would see the route "/": each request fails and says why, in app.Use, in a group, and in front
// of a route's last handler.
func TestMiddlewareFails(t *testing.T) {
	for name, register := range map[string]func(*fiber.App, fiber.Handler){
		"Use":   func(app *fiber.App, limited fiber.Handler) { app.Use(limited) },
		"Group": func(app *fiber.App, limited fiber.Handler) { app.Group("/items", limited) },
		"first": func(app *fiber.App, limited fiber.Handler) { app.Get("/items/:id", limited, served) },
	} {
		var log bytes.Buffer
		limit := fiberlimit.New(adaptertest.RouteHarness(t), fiberlimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		app := fiber.New()
		register(app, limit(func(c fiber.Ctx) error { return c.Next() }))
		app.Get("/items/:id", served)

		a, err := serve(t, app).Send(t.Context(), adaptertest.Query{Route: "item"})
		if err != nil || a.Status != 500 || !strings.Contains(log.String(), "wrap the last handler") {
			t.Errorf("%s: %d %v, logged %s", name, a.Status, err, log.String())
		}
	}
}

// Policies that read no routes do their work as middleware, too, and the service may answer a denial by itself.
func TestMiddlewareWithoutRoutes(t *testing.T) {
	limit := fiberlimit.New(adaptertest.OnceHarness(t), fiberlimit.Config{
		OnDenied: func(c fiber.Ctx, d shadow.Decision) error { return c.Status(503).SendString(d.Policy) },
	})
	app := fiber.New()
	app.Use(limit(func(c fiber.Ctx) error { return c.Next() }))
	app.Get("/items/:id", served)
	c := serve(t, app)

	for i, want := range []string{"200 served", "503 once"} {
		a, err := c.Send(t.Context(), adaptertest.Query{Route: "item"})
		if got := fmt.Sprint(a.Status, " ", a.Body); err != nil || got != want {
			t.Errorf("request %d: %s %v, want %s", i, got, err, want)
		}
	}
}

// everyField makes a key of all texts of a request.
const everyField = `
version: 1
name: test
policies:
  - name: all
    key: [request.path, request.host, 'request.query["q"]', request.method, 'request.headers["x-tenant"]', 'request.headers[request.user]']
    authoritative: { algorithm: fixed_window_anchored, limit: 1, window: 1h }
`

// Contexts and buffers that are used again change no key: what the observer has seen of each request still stands after
// all others.
func TestReusedContexts(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(everyField))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	h, err := shadow.New(shadow.Config{Policies: set, Observer: func(c shadow.Comparison) { seen = append(seen, c.Key) }})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())

	var texts []*policies.Request
	limit := fiberlimit.New(h, fiberlimit.Config{Identify: func(_ fiber.Ctx, p *policies.Request) {
		p.User = "x-other"
		texts = append(texts, &policies.Request{Path: p.Path, Host: p.Host, RawQuery: p.RawQuery, User: p.Headers.Get("X-Tenant")})
	}})
	app := fiber.New()
	app.All("/*", limit(served))
	handler := app.Handler()

	// One context for all requests, as on one connection.
	ctx := &fasthttp.RequestCtx{}
	for i := range 50 {
		ctx.Request.Reset()
		ctx.Response.Reset()
		ctx.Request.Header.SetMethod([]string{http.MethodGet, http.MethodPost}[i%2])
		ctx.Request.SetRequestURI(fmt.Sprintf("http://host-%02d/path-%02d?q=query-%02d", i, i, i))
		ctx.Request.Header.Set("X-Tenant", fmt.Sprintf("tenant-%02d", i))
		ctx.Request.Header.Set("X-Other", fmt.Sprintf("other-%02d", i))
		handler(ctx)
		if ctx.Response.StatusCode() != 200 {
			t.Fatalf("request %d: %d, want 200 for a new key", i, ctx.Response.StatusCode())
		}
	}

	for i, p := range texts {
		want := fmt.Sprintf("/path-%02d host-%02d q=query-%02d tenant-%02d", i, i, i, i)
		if got := strings.Join([]string{p.Path, p.Host, p.RawQuery, p.User}, " "); got != want {
			t.Errorf("request %d is now %s, want %s", i, got, want)
		}
	}
	for i, key := range seen {
		if n := fmt.Sprintf("-%02d", i); strings.Count(key, n) != 5 {
			t.Errorf("the key of request %d is now %s", i, key)
		}
	}
}
