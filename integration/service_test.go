package integration

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Variables that make the test binary a service, in a process of its own.
const (
	serviceVariable = "SHADOWLIMIT_TEST_SERVICE" // address of Redis
	nameVariable    = "SHADOWLIMIT_TEST_NAME"
	fileVariable    = "SHADOWLIMIT_TEST_FILE" // the policy file; "" means serviceFile
	pathVariable    = "SHADOWLIMIT_TEST_PATH" // a policy file that is watched, in the place of the other one
	stateVariable   = "SHADOWLIMIT_TEST_STATE_DIR"

	instanceVariable = "SHADOWLIMIT_TEST_INSTANCE" // "" means host and process id
)

// ownLimiter is a limiter of the service's own, which needs no Redis. It allows everything.
const ownLimiter = "own"

// syncPath has a service write and exchange everything now.
const syncPath = "/sync"

// servedPath tells a service's harness of 100 handlers that have taken some time each.
const servedPath = "/served"

// serve is the service of the README, with metrics. It prints its URL and ends with
// SIGTERM.
func serve(redisAddr, name string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{redisAddr}}, time.Second))
	defer client.Close()

	var seen self
	cfg := shadow.Config{
		Redis: client, Instance: os.Getenv(instanceVariable), StateDir: os.Getenv(stateVariable), File: os.Getenv(pathVariable),
		Limiters: map[string]shadow.Limiter{ownLimiter: shadow.AllowFunc(func(string) bool { return true })},
		Observer: seen.observe, RedButton: shadow.RedButton{Signal: syscall.SIGUSR1},
		Logger: slog.New(slog.DiscardHandler),
	}
	if cfg.File == "" {
		text := fmt.Sprintf(cmp.Or(os.Getenv(fileVariable), serviceFile), name)
		if cfg.Policies, err = policies.Load("service.yaml", []byte(text)); err != nil {
			return err
		}
	}

	h, err := shadow.New(cfg)
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	if err := registry.Register(h); err != nil {
		return err
	}

	identify := func(r *http.Request, p *policies.Request) { p.User = r.Header.Get("X-User") }
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
	mux := http.NewServeMux()
	mux.Handle("/", httplimit.New(h, httplimit.Config{Identify: identify})(served))
	mux.Handle("/status", h.StatusPage())
	mux.Handle("/red-button", h.RedButtonHandler())
	mux.Handle("/self", &seen)
	mux.HandleFunc(servedPath, func(_ http.ResponseWriter, r *http.Request) {
		// As if handlers had taken that long, so that a test need not wait for them.
		took, err := time.ParseDuration(r.URL.Query().Get("took"))
		for range 100 {
			h.Served(took, err != nil)
		}
	})
	mux.HandleFunc(syncPath, func(w http.ResponseWriter, r *http.Request) {
		if err := h.Sync(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	fmt.Println("http://" + listener.Addr().String())

	server := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return h.Close(last)
}

// self is what a process says of itself: the comparisons of all its plans, and what it holds
// after a collection.
type self struct {
	Comparisons atomic.Int64
}

func (s *self) observe(shadow.Comparison) { s.Comparisons.Add(1) }

func (s *self) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	fmt.Fprintln(w, s.Comparisons.Load(), memory.HeapAlloc, runtime.NumGoroutine())
}

const serviceFile = `
version: 1
name: %s
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 5, window: 1h }
    candidate: { algorithm: gcra, limit: 3, window: 1h }
`

// service is one running process.
type service struct {
	url string
	cmd *exec.Cmd
}

func startService(t *testing.T, redisAddr, name string) *service {
	t.Helper()
	return startServiceIn(t, t.TempDir(), redisAddr, name)
}

// startServiceIn starts a process that keeps its last stages in a directory. More variables
// may say what else it is given.
func startServiceIn(t *testing.T, stateDir, redisAddr, name string, more ...string) *service {
	t.Helper()
	more = append(more, serviceVariable+"="+redisAddr, nameVariable+"="+name, stateVariable+"="+stateDir)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), more...)
	cmd.Stderr = os.Stderr

	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	return &service{strings.TrimSpace(line), cmd}
}

// stop ends the process as a deployment does, by SIGTERM.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

var httpClient = &http.Client{Timeout: 10 * time.Second}

func (s *service) get(t *testing.T, path, user string) (int, string) {
	t.Helper()

	r, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	r.Header.Set("X-User", user)
	response, err := httpClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	return response.StatusCode, string(body)
}

// metric returns the value of the first series of a metric that has a label.
func (s *service) metric(t *testing.T, name, label string) (v int64) {
	t.Helper()

	_, text := s.get(t, "/metrics", "")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}

	t.Fatalf("no %s with %s in\n%s", name, label, text)
	return 0
}
