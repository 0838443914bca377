// Fiber is for a service with fiber v3, whose gateway authenticates users. The function
// newApp wraps the handler of each route.
//
//	go run ./fiber
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/shadowlimit/shadowlimit/adapters/fiberlimit"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

//go:embed policies.yaml
var file []byte

// identify takes the user from a header field that the gateway sets or removes in
// every request, so that clients cannot set it.
// Fiber uses the text again for other requests, so it is copied.
func identify(c fiber.Ctx, p *policies.Request) { p.User = strings.Clone(c.Get("X-User")) }

func newHarness() (*shadow.Harness, error) {
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		return nil, err
	}
	harness, err := shadow.New(shadow.Config{Policies: set})
	if err != nil {
		return nil, err
	}
	return harness, harness.Start(context.Background())
}

func newApp(harness *shadow.Harness) *fiber.App {
	limit := fiberlimit.New(harness, fiberlimit.Config{Identify: identify})
	app := fiber.New()

	// As middleware of app.Use the limits would not know the route.
	app.Get("/v1/items/:id", limit(func(c fiber.Ctx) error { return c.SendString("item " + c.Params("id") + "\n") }))
	return app
}

func run(ctx context.Context, addr string) error {
	harness, err := newHarness()
	if err != nil {
		return err
	}

	app := newApp(harness)
	failed := make(chan error, 1)
	go func() { failed <- app.Listen(addr, fiber.ListenConfig{DisableStartupMessage: true}) }()
	fmt.Printf("Five items a minute for a user:\n  for n in $(seq 6); do curl -si -H 'X-User: alice' http://%s/v1/items/$n; done\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// First the requests end, then the harness: it writes the last seconds of evidence.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, app.ShutdownWithContext(last), harness.Close(last))
}

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		log.Fatal(err)
	}
}
