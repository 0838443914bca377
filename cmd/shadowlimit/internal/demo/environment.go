package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// environment is where the demo plays: a Redis, a service on it, and a client of the service.
type environment struct {
	redis    *miniredis.Miniredis // nil if it is the user's
	redisURL string
	client   redis.UniversalClient

	harness    *shadow.Harness
	controller *stages.Controller
	store      stages.Store
	server     *http.Server
	url        string
	stateDir   string
	// wound is set while the clock is wound: a heartbeat is hours old then before anybody looks.
	wound atomic.Bool

	http *http.Client
}

func newEnvironment(client redis.UniversalClient) *environment {
	return &environment{client: client, http: &http.Client{Timeout: ownBudget}}
}

// openEnvironment starts a Redis, whose clock stands at the start, and the service on it.
func openEnvironment(start time.Time, listen string) (_ *environment, err error) {
	server := miniredis.NewMiniRedis()
	server.SetTime(start)
	server.ClockTTL(true)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	defer func() {
		if err != nil {
			server.Close()
		}
	}()

	options := lua.Tune(&redis.UniversalOptions{Addrs: []string{server.Addr()}}, ownBudget)
	e := newEnvironment(redis.NewUniversalClient(options))
	e.redis, e.redisURL = server, "redis://"+server.Addr()
	e.wound.Store(true)
	return e, e.start(listen, "demo")
}

func (e *environment) start(listen, instance string) error {
	set, err := policies.Load("demo.yaml", policyFile)
	if err != nil {
		return err
	}

	// The scenario says what happens; the service's own log would interrupt it.
	// Its Redis ends with the demo, and so does what it keeps on disk.
	if e.stateDir, err = os.MkdirTemp("", "shadowlimit-demo-*"); err != nil {
		return err
	}
	e.harness, err = shadow.New(shadow.Config{
		Policies: set, Redis: e.client, Instance: instance, StateDir: e.stateDir, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = e.harness.Start(context.Background())
	}
	if err != nil {
		return err
	}

	e.store = stages.NewRedisStore(e.client, set.Name)
	e.controller = stages.NewController(e.store, evidence.NewRedisLedger(e.client, set.Name), "demo")
	return e.listen(listen)
}

// listen starts the server: a handler behind the middleware, metrics, and the status page.
func (e *environment) listen(addr string) error {
	handler, err := e.handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}

	// Without a host the listener's address is [::]:PORT, which a browser cannot open.
	e.url = fmt.Sprintf("http://127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	if host, _, _ := net.SplitHostPort(addr); host != "" {
		e.url = "http://" + listener.Addr().String()
	}

	e.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go e.server.Serve(listener) // until close
	return nil
}

func (e *environment) handler() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(e.harness); err != nil {
		return nil, err
	}

	// All clients of the demo are in this process, so a header tells them apart.
	limited := httplimit.New(e.harness, httplimit.Config{Identify: func(r *http.Request, p *policies.Request) {
		if client := r.Header.Get("X-Client"); client != "" { // else it is a person with a browser
			p.IP = client
		}
	}})

	site := http.NewServeMux()
	site.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	root := http.NewServeMux()
	root.Handle("/", limited(site))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	root.Handle("/status", e.inRealTime(e.harness.StatusPage()))
	return root, nil
}

// inRealTime refuses requests until the clock is no longer wound.
func (e *environment) inRealTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.wound.Load() {
			http.Error(w, "the demo winds its clock forward; open this again at the end of its story", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *environment) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	e.http.CloseIdleConnections()
	err := errors.Join(e.server.Shutdown(ctx), e.harness.Close(ctx), e.client.Close(), os.RemoveAll(e.stateDir))
	if e.redis != nil {
		e.redis.Close()
	}
	return err
}

// get sends one request of a client and returns its status.
func (e *environment) get(ctx context.Context, client, plan string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Client", client)
	if plan != "" {
		r.Header.Set("X-Plan", plan)
	}

	response, err := e.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	_, err = io.Copy(io.Discard, response.Body) // to its end, so that the connection is used again
	return response.StatusCode, err
}

const (
	requestEvery = 50 * time.Millisecond
	clockEvery   = 100 * time.Millisecond
)

// serve lets the clock run in real time and the log's clients go on, until ctx is over.
func (e *environment) serve(ctx context.Context, requests []request) error {
	began, from := time.Now(), time.Time{}
	if e.redis != nil {
		heard, err := e.store.Heartbeat(ctx, stages.Heartbeat{})
		from = heard.Now
		if ctx.Err() != nil {
			return nil // an interrupt that comes before the first request ends the service like any other
		}
		if err != nil {
			return err
		}
	}

	clock, traffic := time.NewTicker(clockEvery), time.NewTicker(requestEvery)
	defer clock.Stop()
	defer traffic.Stop()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			if e.redis != nil {
				e.redis.SetTime(from.Add(time.Since(began)))
			}
		case <-traffic.C:
			if _, err := e.get(ctx, requests[i%len(requests)].client, ""); err != nil && ctx.Err() == nil {
				return err
			}
			i++
		}
	}
}
