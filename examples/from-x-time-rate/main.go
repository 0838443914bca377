// From-x-time-rate is for a service that limits each client by a limiter of
// golang.org/x/time/rate in a map, and wants to allow smaller bursts without denying
// the wrong clients. Compare the functions before and after: nothing else changes in
// the handlers. newPair has both limits.
//
// A service of several instances has such a map in each. For a bucket in Redis that they share,
// see policies.yaml, and fleet_test.go, which runs three of them.
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

// before is the old middleware.
func before(limiters *limiters, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !limiters.of(client(r)).Allow() {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// after is the new middleware. It gives the same answers as before until the candidate
// is promoted.
func after(pair *shadow.Pair, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pair.Allow(r.Context(), client(r), 1).Allowed {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newPair compares today's limit with tomorrow's. The adapter is the service's map of
// limiters with a bound. shadow.AllowFunc would wrap the map unchanged.
func newPair() (*shadow.Pair, error) {
	pair, err := shadow.NewPair(shadow.PairConfig{
		Policy: policy,

		Authoritative: shadow.Side{
			Limiter: &adapters.XTimeRate{},
			Limit:   algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 10}, // as rate.NewLimiter(1, 10)
		},

		Candidate: shadow.Side{
			Algorithm: algorithms.GCRA{},
			Limit:     algorithms.Limit{Requests: 60, Window: time.Minute, Burst: 5},
		},
	})
	if err != nil {
		return nil, err
	}
	return pair, pair.Start(context.Background())
}

// client returns the key of the limit: the address of the connection.
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

	fmt.Printf("Today's limiter allows 10 requests at once, the candidate 5. Send 12, and count the newly denied:\n"+
		"  for n in $(seq 12); do curl -s http://%[1]s/; done\n"+
		"  curl -s http://%[1]s/metrics | grep comparisons_total\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// First the requests end, then the pair: it writes the last seconds of evidence, and
	// a request after that would not be counted.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last), pair.Close(last))
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
