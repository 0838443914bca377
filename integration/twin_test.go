package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// twinFile has each limiter beside itself: in one store and in two. A window of an hour
// forgets nothing while the test runs. The service's own store, which has the evidence, is a third one.
const twinFile = `
version: 1
name: %s
policies:
  - name: one-store
    key: request.user
    authoritative: { id: a, algorithm: sliding_window_log, limit: 20, window: 1h, store: one }
    candidate: { id: b, algorithm: sliding_window_log, limit: 20, window: 1h, store: one }
  - name: two-stores
    key: request.user
    authoritative: { id: a, algorithm: gcra, limit: 20, window: 1h, store: one }
    candidate: { id: b, algorithm: gcra, limit: 20, window: 1h, store: other }
`

// twins are a harness on two servers, and what it has compared.
type twins struct {
	*shadow.Harness
	t       *testing.T
	name    string
	own     *redis.Client
	servers [2]*redis.Client
	// Each server is asked through a proxy, so that another one can take its place.
	proxies  [2]*faultyProxy
	replicas [2]*redis.Client // nil without a failover

	mu       sync.Mutex
	outcomes map[string]int // by policy and outcome
	differs  string         // the first difference in one store, or an answer of both sides that is no evidence
	apart    int            // differences in two stores
}

func startTwins(t *testing.T) *twins {
	t.Helper()
	requireProgram(t, program(), "this test stops the server's process")

	w := &twins{t: t, name: namespace(), outcomes: map[string]int{}}
	w.own = redis.NewClient(&redis.Options{Addr: privateServer(t)})
	t.Cleanup(func() { w.own.Close() })
	stores := map[string]redis.UniversalClient{}
	for i, name := range []string{"one", "other"} {
		addr := privateServer(t, debugging(t)...)
		w.servers[i] = w.client(addr)
		proxy, proxied := startProxy(t, addr)
		w.proxies[i] = proxy
		tuned := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{proxied}}, 0))
		t.Cleanup(func() { tuned.Close() })
		stores[name] = tuned
	}

	set, err := policies.Load("twins.yaml", []byte(fmt.Sprintf(twinFile, w.name)))
	if err != nil {
		t.Fatal(err)
	}
	w.Harness, err = shadow.New(shadow.Config{
		Policies: set, Redis: w.own, Stores: stores, Observer: w.observe, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = w.Harness.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// client returns a client for what happens to a server.
func (w *twins) client(addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 10 * time.Second})
	w.t.Cleanup(func() { client.Close() })
	return client
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
	w.outcomes[c.Policy+" "+string(c.Outcome)]++
	if c.Policy == "two-stores" {
		if c.Differs() {
			w.apart++
		}
		return
	}
	both := c.Observed[0].Status == algorithms.Judged && c.Observed[1].Status == algorithms.Judged
	agree := c.Outcome == shadow.AgreeAllow || c.Outcome == shadow.AgreeDeny
	if both != agree && w.differs == "" {
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

// kill ends a server's process. A new one takes its place, with the data or without.
func (w *twins) kill(server *redis.Client, keeps bool) {
	i, args := slices.Index(w.servers[:], server), debugging(w.t)
	if keeps {
		dir := server.ConfigGet(w.t.Context(), "dir").Val()["dir"]
		server.Save(w.t.Context())
		args = append(args, "--dir", dir)
	}
	server.Do(w.t.Context(), "shutdown", "nosave")

	addr, stop, err := startRedis(args...)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.t.Cleanup(stop)
	w.proxies[i].point(addr)
	w.servers[i] = w.client(addr)
	if w.replicas[i] != nil {
		w.follow(w.replicas[i], w.servers[i])
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
	{"kill with its data", func(w *twins, server *redis.Client) { w.kill(server, true) }},
	{"kill without its data", func(w *twins, server *redis.Client) { w.kill(server, false) }},
	{"partition", func(w *twins, server *redis.Client) {
		proxy := w.proxies[slices.Index(w.servers[:], server)]
		proxy.set(swallow)
		time.Sleep(300 * time.Millisecond)
		proxy.set(passOn)
	}},
	{"lost connections", func(w *twins, server *redis.Client) {
		server.ClientKillByFilter(w.t.Context(), "TYPE", "normal", "SKIPME", "yes")
	}},
	{"no memory", func(w *twins, server *redis.Client) {
		server.ConfigSet(w.t.Context(), "maxmemory", "1")
		time.Sleep(100 * time.Millisecond)
		server.ConfigSet(w.t.Context(), "maxmemory", "0")
	}},
}

// Two limiters that are the same do not differ in one store, whatever happens to its server. In two stores they differ in
// disturbed time, and by a check or two where requests of one key overtake each other.
func TestTwinsOnRealServers(t *testing.T) {
	t.Parallel()
	long(t)
	w := startTwins(t)
	for _, d := range twinDisturbances {
		for i := range w.servers {
			var done sync.WaitGroup
			done.Go(func() {
				time.Sleep(50 * time.Millisecond)
				d.do(w, w.servers[i])
			})
			w.spendAndCheck(&done, fmt.Sprint(d.name, i), fmt.Sprintf("%s of server %d", d.name, i))
		}
	}
	w.checkDisturbed(4) // two stores are new, and each has lost its data, perhaps twice within one look
}

// spendAndCheck has clients send requests during a disturbance and after it. In one store no difference may be counted.
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

// checkDisturbed holds that the instance has noticed cost that reached one side only, and losses of data, and that no
// controller has moved or failed the sides in two stores for it.
func (w *twins) checkDisturbed(losses int64) {
	w.t.Helper()
	await(w.t, "the disturbances are counted", func() bool {
		_ = w.Sync(w.t.Context())
		var missed, marks int64
		for _, m := range twinHistory(w.t, w.own, w.name, "two-stores").Minutes {
			if m.Disturbed != nil {
				missed, marks = missed+m.Disturbed.Missed(), marks+m.Disturbed.Marks
			}
		}
		return missed > 0 && marks >= losses
	})

	store, ledger := stages.NewRedisStore(w.own, w.name), evidence.NewRedisLedger(w.own, w.name)
	list, err := stages.NewController(store, ledger, "test").Assess(w.t.Context(), "two-stores")
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d policies are judged: %v", len(list), err)
	}
	if a := list[0]; a.Gate.Verdict == gate.Fail || a.State.Hold || a.State.Stage != stages.Shadow {
		w.t.Errorf("after %d differences in disturbed time: %s, hold %t, verdict %s: %s",
			w.apart, a.State.Stage, a.State.Hold, a.Gate.Verdict, a.Gate.Reason)
	}
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

// Whatever happens to the processes that compare two limiters that are the same is no evidence: one is frozen, one is killed, and
// a rolling deployment brings another candidate, whose part of the record has the same name, and takes it back. Only that one lets
// them differ, and its time is marked.
func TestTwinsInRealProcesses(t *testing.T) {
	t.Parallel()
	long(t)
	addr, name := privateServer(t), namespace()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })

	start := func(file string) *service {
		return startServiceIn(t, t.TempDir(), addr, name, fileVariable+"="+file)
	}
	first, second, killed := start(twinService), start(twinService), start(twinService)
	other := start(strings.Replace(twinService, "candidate: { id: b, algorithm: gcra, limit: 20",
		"candidate: { id: b, algorithm: gcra, limit: 5", 1))

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

	// An instance that evaluates the policy finds the deployment within 15 s, and writes that within as long again.
	marked := func() bool {
		return slices.ContainsFunc(twinHistory(t, client, name, "per-user").Minutes, func(m evidence.Minute) bool {
			return m.Disturbed != nil && m.Disturbed.Marks > 0
		})
	}
	late := time.After(40 * time.Second)
	for tick := time.Tick(100 * time.Millisecond); !marked(); {
		select {
		case <-tick:
			ask(first, 10)
		case <-late:
			t.Fatal("the time of the deployment is not marked")
		}
	}
	other.stop(t)
	ask(first, 200)
	ask(second, 200)
	first.stop(t)
	second.stop(t)

	total := twinHistory(t, client, name, "per-user").Total()
	t.Logf("of the twins: %v", total)
	if total.Comparisons() == 0 {
		t.Error("nothing is compared")
	}
}

// twinHistory is what the instances of a policy's first fingerprint have written.
func twinHistory(t *testing.T, client redis.UniversalClient, name, policy string) evidence.History {
	t.Helper()
	store, ledger := stages.NewRedisStore(client, name), evidence.NewRedisLedger(client, name)
	history, err := store.History(t.Context(), policy)
	if err != nil || len(history) == 0 {
		t.Fatalf("the history has %d entries: %v", len(history), err)
	}

	now := time.Now()
	h, err := evidence.NewReader(ledger, history[0].LedgerID(policy), now.Add(-time.Hour)).History(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
