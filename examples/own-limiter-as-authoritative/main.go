// Own-limiter-as-authoritative is for a service that has written its own limiter, and
// whose clients rely on its 429 and X-RateLimit fields. wrap turns the limiter into a
// side, policies.yaml names it, and tooMany gives the same 429 as before, whichever
// side decides.
//
//	go run ./own-limiter-as-authoritative
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

//go:embed policies.yaml
var file []byte

// wrap turns the service's limiter into a side. It fills in the whole decision, because
// the fields of the response are made from it.
func wrap(q quota) shadow.Limiter {
	allow := func(_ context.Context, key string, _ algorithms.Limit, cost int64) (algorithms.Decision, error) {
		left, wait, ok := q.Take(key, cost)

		d := algorithms.Decision{Allowed: ok, Capacity: quotaRequests, Remaining: left, ResetAfter: wait}
		if !ok {
			d.RetryAfter = wait
		}
		return d, nil
	}
	return shadow.LimiterFunc(allow)
}

func newHarness(q quota) (*shadow.Harness, error) {
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		return nil, err
	}

	harness, err := shadow.New(shadow.Config{
		Policies: set,
		Limiters: map[string]shadow.Limiter{"legacy": wrap(q)}, // the name in policies.yaml
	})
	if err != nil {
		return nil, err
	}
	return harness, harness.Start(context.Background())
}

// tooMany is the service's answer to a denied request.
func tooMany(w http.ResponseWriter, _ *http.Request, d shadow.Decision) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	json.NewEncoder(w).Encode(map[string]any{"error": "quota_exceeded", "retry_in_ms": d.RetryAfter.Milliseconds()})
}

// identify fills in the account, to which the quota belongs.
func identify(r *http.Request, p *policies.Request) { p.User = r.Header.Get("X-Account") }

func newHandler(harness *shadow.Harness) http.Handler {
	limited := httplimit.New(harness, httplimit.Config{
		Identify: identify,
		OnDenied: tooMany,
		Fields:   httplimit.FieldsLegacy, // X-RateLimit-*, as the clients know them
	})
	api := http.NewServeMux()
	api.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"hits":[]}`) })

	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)

	root := http.NewServeMux()
	root.Handle("/", limited(api))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	return root
}

func run(ctx context.Context, addr string) error {
	harness, err := newHarness(newCounters())
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("The service's limiter allows five searches a minute, the candidate three at once. Send six, and compare:\n"+
		"  for n in $(seq 6); do curl -si -H 'X-Account: acme' http://%[1]s/search; done\n"+
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
