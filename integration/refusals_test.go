package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// await waits until a condition holds.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(impatience)
	for tick := time.Tick(time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// loadData lets the server load data, as after a restart, until loadRest.
func loadData(t *testing.T, _ *faultyProxy, admin *redis.Client) {
	t.Helper()
	source := privateServer(t, "--repl-diskless-sync-delay", "0")
	ask(t, source, "EVAL", "for i = 1, 50000 do redis.call('set', i, i) end return 'done'", 0)

	// A server that loads answers clients only after a number of bytes.
	do("CONFIG", "SET", "loading-process-events-interval-bytes", 1024, "key-load-delay", 100)(t, nil, admin)
	host, port, _ := strings.Cut(source, ":")
	do("REPLICAOF", host, port)(t, nil, admin)
	await(t, "the server loads", func() bool {
		return redis.HasErrorPrefix(admin.Ping(context.Background()).Err(), "LOADING")
	})
}

func loadRest(t *testing.T, _ *faultyProxy, admin *redis.Client) {
	t.Helper()
	do("CONFIG", "SET", "key-load-delay", 0)(t, nil, admin)
	await(t, "all is loaded", func() bool { return admin.Do(context.Background(), "REPLICAOF", "NO", "ONE").Err() == nil })
}

// crowdOut leaves the service no connection.
func crowdOut(t *testing.T, p *faultyProxy, admin *redis.Client) {
	t.Helper()
	do("CONFIG", "SET", "maxclients", 1)(t, p, admin)
	p.closeAll()
}

// A Redis whose disk is full refuses writes. Here a directory stands where it would save.
func TestRedisThatCannotSave(t *testing.T) {
	requireProgram(t, "redis-server", "this test changes the server's directory")

	saved := func(admin *redis.Client, want string) func() bool {
		return func() bool {
			_ = admin.BgSave(context.Background()).Err() // refused while one is under way
			info := admin.Info(context.Background(), "persistence").Val()
			return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+want)
		}
	}
	inTheWay := ""
	fail := func(t *testing.T, _ *faultyProxy, admin *redis.Client) {
		directory := admin.ConfigGet(t.Context(), "dir").Val()["dir"]
		inTheWay = filepath.Join(directory, "dump.rdb")
		if err := os.Mkdir(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}

		do("CONFIG", "SET", "save", "3600 1000000")(t, nil, admin)
		await(t, "Redis has failed to save", saved(admin, "err"))
	}
	heal := func(t *testing.T, _ *faultyProxy, admin *redis.Client) {
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		await(t, "Redis has saved", saved(admin, "ok"))
	}

	p := fault{"cannot save", fail, heal}.fall(t)
	p.recover(t)
	p.checkOnce(t)
}

// Requests that find no free connection wait for one as long as the client may, and then
// on_store_failure decides. They open no further connection.
func TestFullPoolIsBounded(t *testing.T) {
	const connections, crowd = 5, 200
	proxy, addr := startProxy(t, privateServer(t))
	options := lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}, PoolSize: connections, MaxActiveConns: connections}, 0)
	client := redis.NewUniversalClient(options).(*redis.Client)
	t.Cleanup(func() { client.Close() })

	h := harnessOf(t, shadow.Config{Policies: many(t, namespace(), 1), Redis: client})
	r := userRequest("alice")
	r.User = "alice"
	if d := h.Decide(t.Context(), r); d.Fallback {
		t.Fatalf("%+v", d)
	}

	proxy.set(lag)
	var requests sync.WaitGroup
	var mu sync.Mutex
	var fallbacks int
	var longest time.Duration
	for range crowd {
		requests.Go(func() {
			begin := time.Now()
			d := h.Decide(t.Context(), r)
			took := time.Since(begin)

			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, took)
			if d.Fallback {
				fallbacks++
			}
		})
	}
	requests.Wait()

	t.Logf("on_store_failure decided %d of %d requests at once; the longest took %s", fallbacks, crowd, longest.Round(time.Millisecond))
	if n := client.PoolStats().TotalConns; n > connections {
		t.Errorf("%d connections, want %d at most", n, connections)
	}
	if fallbacks == 0 || fallbacks == crowd {
		t.Errorf("on_store_failure decided %d of %d requests: the pool was not full, or nothing was asked", fallbacks, crowd)
	}
	if longest > impatience {
		t.Errorf("a request waited for %s", longest)
	}
}
