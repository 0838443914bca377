package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/sample"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

//go:embed demo.yaml
var demoPolicies []byte

const demoPolicy = "per-client"

const demoDescription = `Needs nothing but this program. It starts a Redis in this process, a real HTTP
server behind the middleware, and sends it four days of real requests, the bundled
log, in less than a minute: the clock of that Redis is the clock of all, and it is
wound forward. The candidate earns its promotion, goes wrong, and is rolled back.

Examples:
  shadowlimit demo
  shadowlimit demo --serve      # then use status, promote, ... in another terminal
  shadowlimit demo --serve --redis redis://localhost:6379 --listen 127.0.0.1:8080   # no story: an instance of a fleet, in real time`

func demoCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "a whole migration on real traffic, in less than a minute", Description: demoDescription,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "serve", Usage: "keep it running, with traffic, until interrupted"},
			&cli.StringFlag{Name: "listen", Usage: "address of the service", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "redis", Usage: "with --serve: URL of a Redis to use, whose clock is real, instead of telling the story"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("see: shadowlimit demo --help", "demo takes no arguments")
			}
			if c.String("redis") != "" {
				if !c.Bool("serve") {
					return usagef("add --serve", "the story needs a clock that can be wound, which --redis has not")
				}
				return demoOn(c.Context, io.out, c.String("redis"), c.String("listen"))
			}
			return demo(c.Context, io.out, c.String("listen"), c.Bool("serve"))
		},
	}
}

// demo tells the story and, if asked, goes on serving.
func demo(ctx context.Context, out io.Writer, listen string, serve bool) (err error) {
	events, err := demoEvents()
	if err != nil {
		return err
	}
	s, err := openStage(events[0].at, listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fmt.Fprintf(out, demoOpening, humanize.Counted(int64(len(events)), "request"), s.url, s.redisURL)
	if err := (&story{stage: s, out: out}).tell(ctx, events); err != nil {
		return err
	}
	if !serve {
		fmt.Fprint(out, demoEnd)
		return nil
	}
	fmt.Fprintf(out, demoServing, s.redisURL, s.url)
	return s.serve(ctx, events)
}

// demoOn is one instance of the service on a Redis of the user's.
func demoOn(ctx context.Context, out io.Writer, url, listen string) (err error) {
	events, err := demoEvents()
	if err != nil {
		return err
	}
	client, err := openRedis(url, demoBudget)
	if err != nil {
		return err
	}
	s := newStage(client)
	if err := s.start(listen, ""); err != nil {
		return errors.Join(err, client.Close())
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fmt.Fprintf(out, "Serving on %s/ (and /metrics, /status), with traffic, until interrupted. For the commands: --name demo, and the same --redis.\n", s.url)
	return s.serve(ctx, events)
}

const demoOpening = `A web site lets each client make 20 requests a minute, counted in fixed windows. It
wants sliding windows, and nobody hurt. %s of real traffic, four days of it:

  server   %s/  (and /metrics, and /status to look at)
  Redis    %s  (in this process; its clock is wound forward)

`

const demoEnd = `
The same for your own service: see the README. To look around in this one:
  shadowlimit demo --serve
`

const demoServing = `
Still serving, now in real time, until interrupted. In another terminal:
  export SHADOWLIMIT_REDIS=%s SHADOWLIMIT_NAME=demo
  shadowlimit status
  shadowlimit history per-client
  shadowlimit resume per-client --force --reason "the plan header is mended"
  shadowlimit promote per-client --to 10%% --force --reason "a canary by hand"
  shadowlimit rollback per-client --reason "enough"
  curl %s/metrics
and in a browser:
  %[2]s/status
`

// demoEvent is one request of the bundled log.
type demoEvent struct {
	at     time.Time
	client string
}

func demoEvents() ([]demoEvent, error) {
	var events []demoEvent
	_, err := accesslog.Read(bytes.NewReader(sample.Log()), "bundled log", accesslog.Config{}, func(e accesslog.Event) error {
		events = append(events, demoEvent{time.UnixMicro(e.At).UTC(), string(e.Key)})
		return nil
	})
	slices.SortStableFunc(events, func(a, b demoEvent) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
	return events, err
}

// stage is where the demo plays: a Redis, a service, and a client of it.
type stage struct {
	redis    *miniredis.Miniredis // nil if it is the user's
	client   redis.UniversalClient
	harness  *shadow.Harness
	server   *http.Server
	http     *http.Client
	control  *promotion.Controller
	store    promotion.Store
	url      string
	redisURL string
}

func newStage(client redis.UniversalClient) *stage {
	return &stage{client: client, http: &http.Client{Timeout: 10 * time.Second}}
}

// openStage starts a Redis, whose clock stands, and the service on it.
func openStage(start time.Time, listen string) (_ *stage, err error) {
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
	url := "redis://" + server.Addr()
	client, err := openRedis(url, demoBudget)
	if err != nil {
		return nil, err
	}
	s := newStage(client)
	s.redis, s.redisURL = server, url
	return s, s.start(listen, "demo")
}

// start starts an instance of the service.
func (s *stage) start(listen, instance string) error {
	set, err := policies.Load("demo.yaml", demoPolicies)
	if err != nil {
		return err
	}
	s.harness, err = shadow.New(shadow.Config{Policies: set, Redis: s.client, Instance: instance, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	s.store = promotion.NewRedisStore(s.client, set.Name)
	s.control = promotion.NewController(s.store, divergence.NewRedisLedger(s.client, set.Name), "demo")
	return s.listen(listen)
}

// listen starts the service: a handler behind the middleware, metrics, and the status
// page.
func (s *stage) listen(addr string) error {
	site := http.NewServeMux()
	site.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	registry := prometheus.NewRegistry()
	if err := registry.Register(s.harness); err != nil {
		return err
	}
	limited := httplimit.New(s.harness, httplimit.Config{Identify: func(r *http.Request, p *policies.Request) {
		p.IP = r.Header.Get("X-Client") // all clients of the demo sit in this process
	}})
	root := http.NewServeMux()
	root.Handle("/", limited(site))
	root.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	root.Handle("/status", s.harness.StatusPage())
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	if host, _, _ := net.SplitHostPort(addr); host != "" {
		s.url = "http://" + listener.Addr().String()
	}
	s.server = &http.Server{Handler: root, ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(listener) // until close
	return nil
}

func (s *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.http.CloseIdleConnections()
	err := errors.Join(s.server.Shutdown(ctx), s.harness.Close(ctx), s.client.Close())
	if s.redis != nil {
		s.redis.Close()
	}
	return err
}

// get sends one request of a client and returns its status.
func (s *stage) get(ctx context.Context, client, plan string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Client", client)
	if plan != "" {
		r.Header.Set("X-Plan", plan)
	}
	response, err := s.http.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode, err
}

const (
	serveEvery = 50 * time.Millisecond // between requests
	clockEvery = 100 * time.Millisecond
)

// serve lets the clock run in real time and the log's clients go on, until ctx is
// over.
func (s *stage) serve(ctx context.Context, events []demoEvent) error {
	began, from := time.Now(), time.Time{}
	if s.redis != nil {
		var err error
		if from, err = s.store.Now(ctx); err != nil {
			return err
		}
	}
	clock, traffic := time.NewTicker(clockEvery), time.NewTicker(serveEvery)
	defer clock.Stop()
	defer traffic.Stop()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			if s.redis != nil {
				s.redis.SetTime(from.Add(time.Since(began)))
			}
		case <-traffic.C:
			if _, err := s.get(ctx, events[i%len(events)].client, ""); err != nil && ctx.Err() == nil {
				return err
			}
			i++
		}
	}
}

func rule(out io.Writer) { fmt.Fprintln(out, strings.Repeat("-", 100)) }
