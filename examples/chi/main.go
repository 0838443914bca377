// Chi is for a service with a chi router behind its own proxies, whose gateway
// authenticates users. Read the function limits first: its three hooks give policies
// the route's template, the client's address and the user. A denied request gets a 429
// with problem details.
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

// proxies are the proxies whose X-Forwarded-For is trusted. In the example they run on
// this machine. Without the list request.ip would be the address of the proxy, and all
// clients would share one budget.
var proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func limits(harness *shadow.Harness, router chi.Routes) func(http.Handler) http.Handler {
	return httplimit.New(harness, httplimit.Config{
		Route:    chiroute.Of(router),
		ClientIP: httplimit.ForwardedFor(proxies...),
		Identify: identify,
		OnDenied: httplimit.Problem,
	})
}

// identify takes the user from a header field that the gateway sets or removes in
// every request, so that clients cannot set it.
func identify(r *http.Request, p *policies.Request) { p.User = r.Header.Get("X-User") }

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

func newHandler(harness *shadow.Harness) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)

	// The middleware covers all routes. No policy matches /metrics, so it is not limited.
	router := chi.NewRouter()
	router.Use(limits(harness, router))
	router.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	router.Route("/v1", func(v1 chi.Router) {
		v1.Get("/items/{id}", item)
		v1.Post("/login", login)
	})

	return router
}

func item(w http.ResponseWriter, r *http.Request)  { fmt.Fprintln(w, "item", chi.URLParam(r, "id")) }
func login(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") }

func run(ctx context.Context, addr string) error {
	harness, err := newHarness()
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("Five items a minute for a user, three logins a minute for an address. Try both, and compare the two limiters:\n"+
		"  for n in $(seq 6); do curl -si -H 'X-User: alice' http://%[1]s/v1/items/$n; done\n"+
		"  for n in $(seq 4); do curl -si -X POST -H 'X-Forwarded-For: 203.0.113.7' http://%[1]s/v1/login; done\n"+
		"  curl -s http://%[1]s/metrics | grep comparisons_total\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// First the requests end, then the harness: it writes the last seconds of evidence, and
	// a request after that would not be counted.
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
