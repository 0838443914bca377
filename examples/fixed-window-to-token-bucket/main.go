// Fixed-window-to-token-bucket is for a service that counts in fixed windows, with a
// policy file and the middleware: the case to begin with. Look at policies.yaml, edit
// the copy that the program names, and see the new limits within two seconds. As it
// is without Redis, windows and stages are this process's own.
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

// writePolicies writes the embedded policy file into a folder, so that the example
// runs from anywhere and yet has a file to edit.
func writePolicies(dir string) (file string, err error) {
	file = filepath.Join(dir, "policies.yaml")
	return file, os.WriteFile(file, embedded, 0o600)
}

func newHandler(harness *shadow.Harness) http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ordered") })
	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)
	root := http.NewServeMux()
	root.Handle("/", httplimit.New(harness, httplimit.Config{})(api))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return root
}

func run(ctx context.Context, addr, file string) error {
	harness, err := shadow.New(shadow.Config{File: file})
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()

	fmt.Printf("Five orders a minute. Try, also around the turn of a minute, and see how the two differ:\n"+
		"  for n in $(seq 6); do curl -si -X POST http://%[1]s/orders/$n | grep -i -e HTTP -e ratelimit; done\n"+
		"  curl -s http://%[1]s/metrics | grep comparisons_total\n"+
		"Other limits: edit %[2]s\n", addr, file)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	return errors.Join(err, server.Shutdown(last), harness.Close(last)) // requests end before what counts them
}

// runOwn runs with a copy of the embedded policies.
func runOwn(ctx context.Context, addr string) error {
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
	file := flag.String("policies", "", "the policy `file`; without it a copy of the example's own")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var err error
	if *file == "" {
		err = runOwn(ctx, *addr)
	} else {
		err = run(ctx, *addr, *file)
	}

	if err != nil {
		log.Fatal(err)
	}
}
