package fiberlimit_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/shadowlimit/shadowlimit/adapters/fiberlimit"
	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Framework{
		Item: "/items/:id", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Deaf: "fasthttp reads a connection only between requests",
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			limit := fiberlimit.New(s.Harness, configOf(s))
			app := fiber.New(fiber.Config{ReadBufferSize: 1 << 16})
			app.Use(recover.New(), func(c fiber.Ctx) error {
				c.SetContext(s.Context)
				return c.Next()
			})

			app.Get("/items/:id", limit(func(c fiber.Ctx) error { return c.SendString(s.Item(c.Context(), strings.Clone(c.Params("id")))) }))
			app.Get("/free", limit(func(c fiber.Ctx) error { return c.SendString("free") }))
			app.Get("/stream", limit(func(c fiber.Ctx) error { return stream(c, s) }))
			app.Get("/hang", limit(func(c fiber.Ctx) error { s.Hang(c.Context()); return nil }))
			app.Get("/fail", limit(func(fiber.Ctx) error { return fiber.NewError(503, "down") }))
			app.Get("/panic", limit(func(fiber.Ctx) error { s.Panic(); return nil }))
			return serve(t, app)
		},
	})
}

// serve serves an app over real connections.
func serve(t *testing.T, app *fiber.App) adaptertest.HTTP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		app.ShutdownWithContext(context.Background())
		<-ended
	})
	return adaptertest.HTTP{Addr: listener.Addr().String()}
}

func stream(c fiber.Ctx, s *adaptertest.Service) error {
	ctx := c.Context()
	return c.SendStreamWriter(func(w *bufio.Writer) {
		s.Stream(ctx, func(text string) {
			w.WriteString(text)
			w.Flush()
		})
	})
}

// configOf returns the configuration for a service of the suite.
func configOf(s *adaptertest.Service) fiberlimit.Config {
	cfg := fiberlimit.Config{
		ClientIP:    s.Settings.ClientIP,
		Fields:      httplimit.Fields(s.Settings.Fields),
		Announce:    s.Settings.Announce,
		RetryJitter: s.Settings.RetryJitter,
		MaxWaiting:  s.Settings.MaxWaiting,
		InContext:   s.InContext,
		Debug:       func(fiber.Ctx) bool { return s.Debugged },
	}
	if s.Identified {
		cfg.Identify = func(c fiber.Ctx, p *policies.Request) {
			adaptertest.Identify(func(name string) string { return strings.Clone(c.Get(name)) }, p)
		}
	}
	return cfg
}
