// Two-redis-servers is for a limiter that moves to another Redis. The candidate is in
// the new server and is asked after the answers: it delays none of them, and if the
// new server is down, only the metrics show it. See "store: next" in policies.yaml, and
// newHarness. Stages and evidence stay in today's server, where the command line finds
// them.
//
//	go run ./two-redis-servers
//	go run ./two-redis-servers -redis localhost:6379 -next localhost:6380
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

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

//go:embed policies.yaml
var file []byte

// connect returns a client with the options that a limiter needs: short timeouts and no
// retries. budget is the time that a request may wait for Redis; 0 means the default.
func connect(addr string, budget time.Duration) redis.UniversalClient {
	return redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, budget))
}

func newHarness(today, next redis.UniversalClient) (*shadow.Harness, error) {
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		return nil, err
	}

	harness, err := shadow.New(shadow.Config{
		Policies: set,
		Redis:    today, // stages, evidence, and every side without a store of its own
		Stores:   map[string]redis.UniversalClient{"next": next},
		// For an outage of today's Redis: the red button, and the stages that a restart goes on in.
		// systemd sets the variable for a unit with StateDirectory=; "" means the user's cache.
		RedButton: shadow.RedButton{File: "enforce-authoritative", Signal: syscall.SIGUSR1},
		StateDir:  os.Getenv("STATE_DIRECTORY"),
	})
	if err != nil {
		return nil, err
	}
	return harness, harness.Start(context.Background())
}

func newHandler(harness *shadow.Harness) http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("POST /tickets", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "sold") })

	registry := prometheus.NewRegistry()
	registry.MustRegister(harness)

	root := http.NewServeMux()
	root.Handle("/", httplimit.New(harness, httplimit.Config{})(api))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return root
}

const advice = `Today's Redis is %[2]s, the next one %[3]s. Send some requests, and compare the two limiters:
  for n in $(seq 6); do curl -s -X POST http://%[1]s/tickets; done
  curl -s http://%[1]s/metrics | grep comparisons_total
Promote the candidate, then roll it back:
  export SHADOWLIMIT_REDIS=redis://%[2]s SHADOWLIMIT_NAME=tickets
  shadowlimit promote per-client --to full --force --reason "a drill"
  shadowlimit rollback per-client --reason "the drill is over"
`

func run(ctx context.Context, addr, todayAddr, nextAddr string) error {
	today := connect(todayAddr, 0)
	defer today.Close()
	next := connect(nextAddr, 0)
	defer next.Close()

	harness, err := newHarness(today, next)
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: newHandler(harness), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Printf(advice, addr, todayAddr, nextAddr)

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

// runInProcess runs with two servers in this process, if no Redis is at hand.
func runInProcess(ctx context.Context, addr string) error {
	today, next := miniredis.NewMiniRedis(), miniredis.NewMiniRedis()
	if err := errors.Join(today.Start(), next.Start()); err != nil {
		return err
	}
	defer today.Close()
	defer next.Close()

	fmt.Println("No -redis and -next: both Redis servers run in this process and end with it.")
	return run(ctx, addr, today.Addr(), next.Addr())
}

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	today := flag.String("redis", "", "today's Redis, `host:port`; without it, two servers in the process")
	next := flag.String("next", "", "the next Redis, `host:port`")
	flag.Parse()

	if (*today == "") != (*next == "") {
		log.Fatal("give both -redis and -next, or neither")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var err error
	if *today == "" {
		err = runInProcess(ctx, *addr)
	} else {
		err = run(ctx, *addr, *today, *next)
	}

	if err != nil {
		log.Fatal(err)
	}
}
