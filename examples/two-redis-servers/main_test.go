package main

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // a test stops a server, which go-redis would report
	goleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

const policy = "per-client"

// open returns the service and its two Redis servers, whose clocks stand still.
func open(t *testing.T) (harness *shadow.Harness, h http.Handler, today, next *miniredis.Miniredis) {
	t.Helper()

	t.Setenv("STATE_DIRECTORY", t.TempDir())
	today, next = miniredis.RunT(t), miniredis.RunT(t)

	var clients [2]redis.UniversalClient
	for i, server := range []*miniredis.Miniredis{today, next} {
		server.SetTime(time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC))
		clients[i] = connect(server.Addr(), 5*time.Second) // long, so that a busy machine fails no test
		t.Cleanup(func() { clients[i].Close() })
	}

	harness, err := newHarness(clients[0], clients[1])
	if err != nil {
		t.Fatal(err)
	}

	return harness, newHandler(harness), today, next
}

func buy(ip string) func() *http.Request { return exampletest.From(ip, http.MethodPost, "/tickets") }

func TestStageSelectsTheServer(t *testing.T) {
	harness, h, today, next := open(t)

	if got := exampletest.Allowed(t, h, 6, buy("192.0.2.1")); got != 5 {
		t.Errorf("in shadow %d allowed, want 5 by today's server", got)
	}

	exampletest.Promote(t, harness, policy)
	if got := exampletest.Allowed(t, h, 6, buy("192.0.2.2")); got != 3 {
		t.Errorf("promoted: %d allowed, want 3 by the next server", got)
	}

	exampletest.Rollback(t, harness, policy)
	if got := exampletest.Allowed(t, h, 6, buy("192.0.2.3")); got != 5 {
		t.Errorf("rolled back: %d allowed, want 5 by today's server", got)
	}

	// The async queue asks it after the answers; Close waits for it.
	exampletest.Close(t, harness)
	want := map[string]int{"agree_allow": 9, "newly_denied": 6, "agree_deny": 3}
	if got := exampletest.Outcomes(t, harness, policy); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}

	for name, server := range map[string]*miniredis.Miniredis{"today's": today, "the next": next} {
		if n := records(server); n != 3 {
			t.Errorf("%s server has %d records, want one for each client", name, n)
		}
	}
}

// records returns the number of clients that have a record in a server.
func records(server *miniredis.Miniredis) (n int) {
	for _, key := range server.Keys() {
		if strings.HasPrefix(key, "shadowlimit1:{tickets:"+policy+":192.0.2.") {
			n++
		}
	}
	return n
}

func TestNextServerMayBeDown(t *testing.T) {
	harness, h, _, next := open(t)
	next.Close()

	if got := exampletest.Allowed(t, h, 6, buy("192.0.2.1")); got != 5 {
		t.Errorf("%d allowed, want 5 by today's server", got)
	}

	exampletest.Close(t, harness)
	if got := exampletest.Outcomes(t, harness, policy); got["inconclusive"] == 0 || got["newly_denied"] != 0 {
		t.Errorf("counted %v, want inconclusive comparisons and no difference", got)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := runInProcess(ctx, "localhost:0"); err != nil {
		t.Error(err)
	}
}
