// Fixed-window-to-token-bucket is for a service that counts in fixed windows. It uses a
// policy file and the middleware: begin with this example. Read policies.yaml, edit the
// copy that the program names, and the new limits apply within two seconds. Without
// Redis, windows and stages belong to this process alone.
//
//	go run ./fixed-window-to-token-bucket
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

//go:embed policies.yaml
var embedded []byte

// writePolicies writes the embedded policy file into a folder. So the example runs from
// any folder and still has a file to edit.
func writePolicies(dir string) (file string, err error) {
	file = filepath.Join(dir, "policies.yaml")
	return file, os.WriteFile(file, embedded, 0o600)
}

func newHandler(harness *shadow.Harness) http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ordered") })

	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)

	// The metrics are outside the middleware, so that no limit keeps Prometheus out.
	root := http.NewServeMux()
	root.Handle("/", httplimit.New(harness, httplimit.Config{})(api))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return root
}

func run(ctx context.Context, addr, file string) error {
	// While the file exists, or after the signal, this instance enforces the authoritative.
	button := shadow.RedButton{File: "enforce-authoritative", Signal: syscall.SIGUSR1}
	harness, err := shadow.New(shadow.Config{File: file, RedButton: button})
	if err == nil {
		err = harness.Start(context.Background())
	}
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("Five orders a minute. Send some, also shortly before and after a full minute, and compare the two limiters:\n"+
		"  for n in $(seq 6); do curl -si -X POST http://%[1]s/orders/$n | grep -i -e HTTP -e ratelimit; done\n"+
		"  curl -s http://%[1]s/metrics | grep comparisons_total\n"+
		"To change the limits, edit %[2]s\n", addr, file)

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

// runCopy runs with a copy of the embedded policies.
func runCopy(ctx context.Context, addr string) error {
	dir, err := os.MkdirTemp("", "policies")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	file, err := writePolicies(dir)
	if err != nil {
		return err
	}

	return run(ctx, addr, file)
}

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	file := flag.String("policies", "", "the policy `file`; without it, a copy of the example's file")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var err error
	if *file == "" {
		err = runCopy(ctx, *addr)
	} else {
		err = run(ctx, *addr, *file)
	}

	if err != nil {
		log.Fatal(err)
	}
}
