// From-x-time-rate is for a service that limits each client by a limiter of
// golang.org/x/time/rate in a map, and wants fewer requests at once, but does not
// know whom that would hurt. Look at before and after, which are all that changes in
// the handlers, and at newPair.
//
//	go run ./from-x-time-rate
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/examples/adapters"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const policy = "per-client"

// before is the middleware as it was.
func before(limiters *limiters, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !limiters.of(client(r)).Allow() {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// after is the middleware as it is: it answers as before until the candidate is
// promoted.
func after(pair *shadow.Pair, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pair.Allow(r.Context(), client(r), 1).Allowed {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newPair puts today's limit beside tomorrow's. The adapter is the service's own map
// with a bound; shadow.AllowFunc would take the map as it is.
func newPair() (*shadow.Pair, error) {
	return shadow.NewPair(shadow.PairConfig{
		Policy: policy,
		Authoritative: shadow.Side{
			Limiter: &adapters.XTimeRate{},
			Limit:   algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 10}, // rate.NewLimiter(1, 10)
		},
		Candidate: shadow.Side{
			Algorithm: algorithms.GCRA{},
			Limit:     algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 5},
		},
	})
}

// client returns who is limited: the address of the connection.
func client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func newHandler(pair *shadow.Pair) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(pair)
	mux := http.NewServeMux()
	mux.Handle("/", after(pair, http.HandlerFunc(hello)))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

func run(ctx context.Context, addr string) error {
	pair, err := newPair()
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(pair), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("Today 10 at once are allowed, the candidate allows 5. Try, and see what it would have denied:\n"+
		"  for n in $(seq 12); do curl -s http://%[1]s/; done\n  curl -s http://%[1]s/metrics | grep comparisons_total\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	return errors.Join(err, server.Shutdown(last), pair.Close(last)) // requests end before what counts them
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
