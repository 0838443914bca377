// Chi is for a service with a chi router behind proxies of its own, whose gateway
// says who the user is. Look at limits, which tells policies the route's template, the
// client's address and the user, and at the problem details of a 429.
//
//	go run ./chi
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit/chiroute"
)

//go:embed policies.yaml
var file []byte

// proxies are believed when they say whom they forward for: this machine's, for the
// example.
var proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// limits is the middleware of a router.
func limits(harness *shadow.Harness, router chi.Routes) func(http.Handler) http.Handler {
	return httplimit.New(harness, httplimit.Config{
		Route:    chiroute.Of(router),
		ClientIP: httplimit.ForwardedFor(proxies...),
		Identify: identify,
		OnDenied: httplimit.Problem,
	})
}

// identify takes the user from the field that the gateway sets, or removes, in every
// request.
func identify(r *http.Request, p *policies.Request) { p.User = r.Header.Get("X-User") }

func newHarness() (*shadow.Harness, error) {
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		return nil, err
	}
	return shadow.New(shadow.Config{Policies: set})
}

func newHandler(harness *shadow.Harness) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)
	router := chi.NewRouter()
	router.Use(limits(harness, router))
	router.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // no policy matches this route

	router.Route("/v1", func(v1 chi.Router) {
		v1.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "item", chi.URLParam(r, "id")) })
		v1.Post("/login", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") })
	})

	return router
}

func run(ctx context.Context, addr string) error {
	harness, err := newHarness()
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("Five items a minute for a user, three logins for an address. Try, and see how the limiters differ:\n"+
		"  for n in $(seq 6); do curl -si -H 'X-User: alice' http://%[1]s/v1/items/$n; done\n"+
		"  for n in $(seq 4); do curl -si -X POST -H 'X-Forwarded-For: 203.0.113.7' http://%[1]s/v1/login; done\n"+
		"  curl -s http://%[1]s/metrics | grep comparisons_total\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	return errors.Join(err, server.Shutdown(last), harness.Close(last)) // requests end before what counts them
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
