package integration

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// manner is how a proxy treats the answers of the server.
type manner int32

const (
	passOn   manner = iota
	swallow         // drops answers
	late            // delays answers by 300 ms
	cutShort        // ends the connection after three bytes
	reset           // resets the connection instead of an answer
	refuse          // refuses new connections and closes the others
	lag             // delays answers by 30 ms
	slice           // sends each byte of an answer by itself
	trickle         // the same, and 10 ms later than the byte before
)

// faultyProxy stands between a client and a server.
type faultyProxy struct {
	manner atomic.Int32
	server atomic.Value // string, the address of the server
	turned atomic.Int64 // connections that were refused
	mu     sync.Mutex
	conns  map[net.Conn]bool
}

func startProxy(t *testing.T, server string) (*faultyProxy, string) {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	p := &faultyProxy{conns: map[net.Conn]bool{}}
	p.server.Store(server)

	var wg sync.WaitGroup
	t.Cleanup(func() { listener.Close(); p.closeAll(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}

			upstream, err := net.Dial("tcp", p.server.Load().(string))
			if err != nil || p.is(refuse) {
				client.Close()
				p.turned.Add(1)
				continue
			}

			p.keep(client, upstream)
			wg.Go(func() {
				pump(upstream, client, func(said []byte) bool { return p.answer(client, said) })
				client.Close()
			})
			wg.Go(func() {
				pump(client, upstream, func([]byte) bool { return true })
				upstream.Close()
			})
		}
	})

	return p, listener.Addr().String()
}

func (p *faultyProxy) is(m manner) bool { return manner(p.manner.Load()) == m }

func (p *faultyProxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
}

func (p *faultyProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// answer reports whether an answer of the server is to be passed on as it is.
func (p *faultyProxy) answer(client net.Conn, said []byte) bool {
	switch manner(p.manner.Load()) {
	case swallow:
		return false
	case late:
		<-time.After(300 * time.Millisecond)
	case lag:
		<-time.After(lagOfAnswers)
	case slice:
		inPieces(client, said, 0)
		return false
	case trickle:
		inPieces(client, said, 10*time.Millisecond)
		return false
	case cutShort:
		_, _ = client.Write([]byte("*1\r"))
		client.Close()
		return false
	case reset:
		_ = client.(*net.TCPConn).SetLinger(0)
		client.Close()
		return false
	}

	return true
}

// lagOfAnswers is well within the timeout of the clients.
const lagOfAnswers = 30 * time.Millisecond

// inPieces sends an answer byte by byte.
func inPieces(client net.Conn, said []byte, pause time.Duration) {
	for i := range said {
		if _, err := client.Write(said[i : i+1]); err != nil {
			return
		}
		if pause > 0 {
			<-time.After(pause)
		}
	}
}

// set changes the manner. refuse also closes the open connections.
func (p *faultyProxy) set(m manner) {
	p.manner.Store(int32(m))
	if m == refuse {
		p.closeAll()
	}
}

// point connects clients to another server from now on.
func (p *faultyProxy) point(server string) {
	p.server.Store(server)
	p.closeAll()
}

// fault is a failure of Redis: how it begins and how it ends.
type fault struct {
	name        string
	begin, stop func(t *testing.T, p *faultyProxy, admin *redis.Client)
}

// do returns a step that runs a command, which must succeed.
func do(args ...any) func(*testing.T, *faultyProxy, *redis.Client) {
	return func(t *testing.T, _ *faultyProxy, admin *redis.Client) {
		t.Helper()
		if err := admin.Do(context.Background(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
}

func behave(m manner) func(*testing.T, *faultyProxy, *redis.Client) {
	return func(_ *testing.T, p *faultyProxy, _ *redis.Client) { p.set(m) }
}

// spin keeps the server busy with the script of another client.
func spin(t *testing.T, _ *faultyProxy, admin *redis.Client) {
	other := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { other.Close() })
	go other.Eval(context.Background(), "while true do end", nil)

	for admin.Ping(context.Background()).Err() == nil { // until it is busy
	}
}

var faults = []fault{
	{"refuses", behave(refuse), behave(passOn)},
	{"black hole", behave(swallow), behave(passOn)},
	{"too slow", behave(late), behave(passOn)},
	{"half an answer", behave(cutShort), behave(passOn)},
	{"reset", behave(reset), behave(passOn)},
	{"read-only replica", do("REPLICAOF", "127.0.0.1", "1"), do("REPLICAOF", "NO", "ONE")},
	{"out of memory", do("CONFIG", "SET", "maxmemory", "1"), do("CONFIG", "SET", "maxmemory", "0")},
	{"no permission", do("ACL", "SETUSER", "default", "-evalsha", "-eval"), do("ACL", "SETUSER", "default", "+evalsha", "+eval")},
	{"busy with a script", spin, do("SCRIPT", "KILL")},
	{"trickle", behave(trickle), behave(passOn)},
	{"loading", loadData, loadRest},
	{"too many clients", crowdOut, do("CONFIG", "SET", "maxclients", 10000)},
	{"paused", do("CLIENT", "PAUSE", 600000, "WRITE"), do("CLIENT", "UNPAUSE")},
}

// scriptCounter counts the scripts that a client is asked to send.
type scriptCounter struct{ atomic.Int64 }

func (c *scriptCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *scriptCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *scriptCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *scriptCounter) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.Add(1)
		}
	}
}

// patient is a service whose Redis has failed and works again.
type patient struct {
	fault
	decide func() shadow.Decision
	admin  *redis.Client
	sent   *scriptCounter

	fallbacks     int       // decisions by the rule for failures
	began, worked time.Time // when the failure began, and when Redis worked again
}

// fall lets the Redis of a service fail and recover. While it fails, every decision must
// be a fallback.
func (f fault) fall(t *testing.T) *patient {
	addr := privateServer(t, "--busy-reply-threshold", "50")
	admin := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { admin.Close() })

	proxy, behind := startProxy(t, addr)
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{behind}}, 100*time.Millisecond))
	t.Cleanup(func() { client.Close() })

	p := &patient{fault: f, admin: admin, sent: &scriptCounter{}}
	client.AddHook(p.sent)
	h := harnessOf(t, shadow.Config{Policies: denying(t, namespace()), Redis: client})
	p.decide = func() shadow.Decision { return h.Decide(t.Context(), &policies.Request{User: "alice"}) }

	for range 3 {
		if d := p.decide(); !d.Allowed || d.Fallback {
			t.Fatalf("%s: before: %+v", f.name, d)
		}
	}

	p.began = time.Now()
	f.begin(t, proxy, admin)
	for n := range 30 {
		if d := p.decide(); d.Allowed || !d.Fallback {
			t.Errorf("%s: request %d meanwhile: %+v", f.name, n, d)
		}
		p.fallbacks++
	}

	f.stop(t, proxy, admin)
	p.worked = time.Now()
	return p
}

// While Redis fails, on_store_failure decides every request and no script runs twice.
// When Redis works again, it decides again.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		p := f.fall(t)
		p.recover(t)
		p.checkOnce(t)
	}
}

// checkOnce holds that no script ran that was not sent.
func (p *patient) checkOnce(t *testing.T) {
	t.Helper()
	if ran := executions(t, p.admin); ran > int(p.sent.Load()) {
		t.Errorf("%s: the client sent %d scripts, the server ran %d", p.name, p.sent.Load(), ran)
	}
}

// recover waits until the store decides again, and holds that it then decides every
// request.
func (p *patient) recover(t *testing.T) {
	t.Helper()

	deadline := time.After(90 * time.Second)
	for tick := time.Tick(100 * time.Millisecond); ; {
		if d := p.decide(); d.Allowed && !d.Fallback {
			t.Logf("%s: on_store_failure decided %d requests; Redis failed for %s, and decides again %s later at most",
				p.name, p.fallbacks, p.worked.Sub(p.began).Round(time.Millisecond), time.Since(p.worked).Round(time.Millisecond))
			break
		}
		p.fallbacks++

		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%s: the store works again, and is not asked", p.name)
		}
	}

	for n := range 20 {
		if d := p.decide(); !d.Allowed || d.Fallback {
			t.Errorf("%s: request %d afterwards: %+v", p.name, n, d)
		}
	}
}

// denying is a file in which a fallback differs from every decision: the store allows,
// on_store_failure denies.
func denying(t testing.TB, name string) *policies.Set {
	t.Helper()

	set, err := policies.Load("denying.yaml", []byte(fmt.Sprintf(`
version: 1
name: %s
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1m }
    candidate: { algorithm: sliding_window_counter, limit: 1000, window: 1m }
    on_store_failure: deny
`, name)))
	if err != nil {
		t.Fatal(err)
	}

	return set
}
