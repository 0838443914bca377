package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// twinFile has each limiter beside itself: in one store and in two. A window of an hour
// forgets nothing while the test runs.
const twinFile = `
version: 1
name: %s
policies:
  - name: one-store
    key: request.user
    authoritative: { id: a, algorithm: sliding_window_log, limit: 20, window: 1h }
    candidate: { id: b, algorithm: sliding_window_log, limit: 20, window: 1h }
  - name: two-stores
    key: request.user
    authoritative: { id: a, algorithm: gcra, limit: 20, window: 1h }
    candidate: { id: b, algorithm: gcra, limit: 20, window: 1h, store: other }
`

// twins are a harness on two servers, and what it has compared.
type twins struct {
	*shadow.Harness
	t       *testing.T
	servers [2]*redis.Client
	// Each server is asked through a proxy, so that another one can take its place.
	proxies  [2]*faultyProxy
	replicas [2]*redis.Client // nil without a failover

	mu       sync.Mutex
	outcomes map[divergence.Outcome]int
	differs  string // the first difference
}

func startTwins(t *testing.T) *twins {
	t.Helper()
	requireProgram(t, program(), "this test stops the server's process")

	w := &twins{t: t, outcomes: map[divergence.Outcome]int{}}
	var tuned [2]redis.UniversalClient
	for i := range w.servers {
		addr := privateServer(t, debugging(t)...)
		w.servers[i] = redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 10 * time.Second})
		proxy, proxied := startProxy(t, addr)
		w.proxies[i] = proxy
		tuned[i] = redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{proxied}}, 0))
		server := w.servers[i]
		t.Cleanup(func() { server.Close(); tuned[i].Close() })
	}

	set, err := policies.Load("twins.yaml", []byte(fmt.Sprintf(twinFile, namespace())))
	if err != nil {
		t.Fatal(err)
	}
	w.Harness, err = shadow.New(shadow.Config{
		Policies: set, Redis: tuned[0], Stores: map[string]redis.UniversalClient{"other": tuned[1]},
		Observer: w.observe, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// debugging returns the arguments with which a server obeys DEBUG. Before 7.0 it obeys by itself, and
// does not know the option.
func debugging(t *testing.T) []string {
	t.Helper()

	out, err := exec.Command(program(), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}

	var major int
	_, version, _ := strings.Cut(string(out), " v=")
	if _, err := fmt.Sscanf(version, "%d.", &major); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if major < 7 {
		return nil
	}
	return []string{"--enable-debug-command", "yes"}
}

func (w *twins) observe(c shadow.Comparison) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[c.Outcome]++
	if c.Differs() && w.differs == "" {
		w.differs = fmt.Sprintf("%s of %s by %s: %+v", c.Outcome, c.Key, c.Policy, c.Observed)
	}
}

// spend has clients send more requests than they are allowed, some of them at once.
func (w *twins) spend(prefix string) {
	var done sync.WaitGroup
	for client := range 6 {
		done.Go(func() {
			for range 30 {
				w.Decide(w.t.Context(), &policies.Request{User: fmt.Sprint(prefix, "-", client/2), Time: time.Now()})
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	done.Wait()
}

// freeze stops a server's process for a while.
func (w *twins) freeze(server *redis.Client, d time.Duration) {
	pid, err := strconv.Atoi(server.InfoMap(w.t.Context(), "server").Item("Server", "process_id"))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	time.Sleep(d)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		w.t.Error(err)
	}
}

// twinDisturbance is something that happens to a server.
type twinDisturbance struct {
	name string
	do   func(w *twins, server *redis.Client)
}

var twinDisturbances = []twinDisturbance{
	{"calm", func(*twins, *redis.Client) {}},
	{"pause", func(w *twins, server *redis.Client) { server.ClientPause(w.t.Context(), 120*time.Millisecond) }},
	{"sleep", func(w *twins, server *redis.Client) { server.Do(w.t.Context(), "debug", "sleep", "0.3") }},
	{"long sleep", func(w *twins, server *redis.Client) { server.Do(w.t.Context(), "debug", "sleep", "1.5") }},
	{"frozen process", func(w *twins, server *redis.Client) { w.freeze(server, 200*time.Millisecond) }},
	{"SCRIPT FLUSH", func(w *twins, server *redis.Client) { server.ScriptFlush(w.t.Context()) }},
	{"FLUSHALL", func(w *twins, server *redis.Client) { server.FlushAll(w.t.Context()) }},
	{"lost connections", func(w *twins, server *redis.Client) {
		server.ClientKillByFilter(w.t.Context(), "TYPE", "normal", "SKIPME", "yes")
	}},
	{"no memory", func(w *twins, server *redis.Client) {
		server.ConfigSet(w.t.Context(), "maxmemory", "1")
		time.Sleep(100 * time.Millisecond)
		server.ConfigSet(w.t.Context(), "maxmemory", "0")
	}},
}

// Two limiters that are the same do not differ, whatever happens to their servers.
func TestTwinsOnRealServers(t *testing.T) {
	w := startTwins(t)
	for _, d := range twinDisturbances {
		for i, server := range w.servers {
			var done sync.WaitGroup
			done.Go(func() {
				time.Sleep(50 * time.Millisecond)
				d.do(w, server)
			})
			w.spendAndCheck(&done, fmt.Sprint(d.name, i), fmt.Sprintf("%s of server %d", d.name, i))
		}
	}
}

// spendAndCheck has clients send requests during a disturbance and after it. No difference may be
// counted.
func (w *twins) spendAndCheck(disturbance *sync.WaitGroup, prefix, what string) {
	w.spend(prefix)
	disturbance.Wait()
	w.spend(prefix)
	if err := w.Sync(w.t.Context()); err != nil {
		w.t.Logf("%s: %v", what, err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.differs != "" {
		w.t.Errorf("%s: %s", what, w.differs)
		w.differs = ""
	}
	w.t.Logf("%s: %v", what, w.outcomes)
	clear(w.outcomes)
}

const twinService = `
version: 1
name: %s
policies:
  - name: per-user
    key: request.user
    authoritative: { id: a, algorithm: gcra, limit: 20, window: 1h }
    candidate: { id: b, algorithm: gcra, limit: 20, window: 1h }
`

// Two limiters that are the same do not differ, whatever happens to the processes that compare
// them: one is frozen, one is killed, and a rolling deployment brings another candidate, whose
// part of the record has the same name, and takes it back.
func TestTwinsInRealProcesses(t *testing.T) {
	addr, name := privateServer(t), namespace()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })

	t.Setenv(fileVariable, twinService)
	first, second, killed := startService(t, addr, name), startService(t, addr, name), startService(t, addr, name)
	t.Setenv(fileVariable, strings.Replace(twinService, "candidate: { id: b, algorithm: gcra, limit: 20",
		"candidate: { id: b, algorithm: gcra, limit: 5", 1))
	other := startService(t, addr, name)

	var done sync.WaitGroup
	ask := func(s *service, n int) {
		for i := range n {
			request, _ := http.NewRequest("GET", s.url+"/", nil)
			request.Header.Set("X-User", fmt.Sprint("user-", i%8))
			if response, err := httpClient.Do(request); err == nil {
				response.Body.Close()
			}
		}
	}
	for _, s := range []*service{first, second, killed, other} {
		done.Go(func() { ask(s, 300) })
	}

	time.Sleep(20 * time.Millisecond)
	_ = second.cmd.Process.Signal(syscall.SIGSTOP)
	_ = killed.cmd.Process.Kill()
	time.Sleep(300 * time.Millisecond)
	_ = second.cmd.Process.Signal(syscall.SIGCONT)
	done.Wait()
	other.stop(t)
	ask(first, 200)
	ask(second, 200)
	first.stop(t)
	second.stop(t)

	total := twinTotal(t, client, name)
	t.Logf("of the twins: %v", total)
	if total[divergence.NewlyDenied]+total[divergence.NewlyAllowed] > 0 {
		t.Errorf("two limiters that are the same have differed: %v", total)
	}
}

// twinTotal is what the processes of the twins have written, which are those of the epoch that
// most have.
func twinTotal(t *testing.T, client redis.UniversalClient, name string) divergence.Tally {
	t.Helper()
	store, ledger := promotion.NewRedisStore(client, name), divergence.NewRedisLedger(client, name)
	history, err := store.History(t.Context(), "per-user")
	if err != nil || len(history) == 0 {
		t.Fatalf("the history has %d entries: %v", len(history), err)
	}

	// The twins' epoch is the first one.
	now := time.Now()
	h, err := divergence.NewReader(ledger, history[0].LedgerID("per-user"), now.Add(-time.Hour)).History(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return h.Total()
}
