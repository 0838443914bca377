// Otel is for a service with OpenTelemetry: its spans have both sides' answers, and its metrics are exported by the bridge
// from Prometheus. Both go to standard output, where a service has OTLP exporters.
//
//	go run .
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

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

//go:embed policies.yaml
var file []byte

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

// metrics has a reader of OpenTelemetry collect a harness by the bridge.
func metrics(harness *shadow.Harness) metric.Producer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)
	return bridge.NewMetricProducer(bridge.WithGatherer(registry))
}

// newHandler puts the limits inside the span of each request. An admitted request's decision is in its context, and OnDenied
// has that of a denied one. Config.Observer is not for spans: it may be called after the answer, and knows no request.
func newHandler(harness *shadow.Harness, traces trace.TracerProvider) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "item", r.PathValue("id")) })

	limit := httplimit.New(harness, httplimit.Config{
		Route:     httplimit.MuxRoute(mux),
		InContext: true,
		OnDenied: func(w http.ResponseWriter, r *http.Request, d shadow.Decision) {
			describe(trace.SpanFromContext(r.Context()), &d)
			httplimit.Problem(w, r, d)
		},
	})
	return otelhttp.NewHandler(limit(described(mux)), "request", otelhttp.WithTracerProvider(traces))
}

// described describes the decision on each admitted request in its span.
func described(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := shadow.FromContext(r.Context()); ok {
			describe(trace.SpanFromContext(r.Context()), d)
		}
		next.ServeHTTP(w, r)
	})
}

// describe gives a span what both sides have answered. Keys are no attributes: they may be addresses or names.
func describe(span trace.Span, d *shadow.Decision) {
	if d.Policy == "" {
		return
	}
	span.SetAttributes(
		attribute.String("shadowlimit.policy", d.Policy),
		attribute.String("shadowlimit.enforced", d.Enforced.String()),
		attribute.Bool("shadowlimit."+d.Enforced.String()+".allowed", d.Allowed),
	)

	// A side in another store, or a custom one, answers after the request.
	if o := d.Unenforced(); o.Status == algorithms.Judged {
		span.SetAttributes(attribute.Bool("shadowlimit."+d.Enforced.Other().String()+".allowed", o.Decision.Allowed))
	}
}

func run(ctx context.Context, addr string) error {
	spans, err := stdouttrace.New()
	if err != nil {
		return err
	}
	numbers, err := stdoutmetric.New()
	if err != nil {
		return err
	}
	harness, err := newHarness()
	if err != nil {
		return err
	}

	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(numbers, metric.WithProducer(metrics(harness)))))
	server := &http.Server{Addr: addr, Handler: newHandler(harness, traces), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Fprintf(os.Stderr, "Five items a minute. Spans and metrics are written within seconds, and the last ones at the end:\n"+
		"  for n in $(seq 6); do curl -si -H 'X-User: alice' http://%s/items/$n; done\n", addr)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	// The metrics are collected for the last time before the harness ends.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last), traces.Shutdown(last), meters.Shutdown(last), harness.Close(last))
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
