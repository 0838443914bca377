// Gin is for a service with a gin engine, whose gateway authenticates users. The function
// newHandler puts the limits in front of all routes.
//
//	go run ./gin
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/shadowlimit/shadowlimit/adapters/ginlimit"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

//go:embed policies.yaml
var file []byte

// identify takes the user from a header field that the gateway sets or removes in
// every request, so that clients cannot set it.
func identify(c *gin.Context, p *policies.Request) { p.User = c.GetHeader("X-User") }

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

func newHandler(harness *shadow.Harness) (http.Handler, error) {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(gin.Recovery())

	// Gin limits only the routes that are registered after this.
	if err := ginlimit.Use(engine, harness, ginlimit.Config{Identify: identify}); err != nil {
		return nil, err
	}

	engine.GET("/v1/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "item %s\n", c.Param("id")) })
	return engine, nil
}

func run(ctx context.Context, addr string) error {
	harness, err := newHarness()
	if err != nil {
		return err
	}
	handler, err := newHandler(harness)
	if err != nil {
		return errors.Join(err, harness.Close(ctx))
	}

	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Printf("Five items a minute for a user:\n  for n in $(seq 6); do curl -si -H 'X-User: alice' http://%s/v1/items/$n; done\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// First the requests end, then the harness: it writes the last seconds of evidence.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last), harness.Close(last))
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
