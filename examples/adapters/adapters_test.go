package adapters_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/examples/adapters"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// limit is 10 a minute and 3 at once: a token every 6 s.
var limit = algorithms.Limit{Requests: 10, Window: time.Minute, Burst: 3}

// ask sends checks of a new key to a limiter and compares its decisions.
func ask(t *testing.T, l shadow.Limiter) {
	t.Helper()

	tests := []struct {
		cost, remaining int64
		allowed         bool
		retry           time.Duration // 0: none
	}{
		{1, 2, true, 0},
		{2, 0, true, 0},
		{1, 0, false, 6 * time.Second},
		{3, 0, false, 18 * time.Second},
		{4, 0, false, algorithms.Never}, // above the burst
	}

	for i, tt := range tests {
		d, err := l.Allow(context.Background(), "key", limit, tt.cost)

		// Redis has a real clock, which advances between two calls: a wait may be shorter.
		waits := d.RetryAfter <= tt.retry && d.RetryAfter > tt.retry-5*time.Second || d.RetryAfter == tt.retry
		if err != nil || d.Allowed != tt.allowed || d.Remaining != tt.remaining || !waits || d.Capacity != 3 {
			t.Errorf("check %d: %+v, %v, want %+v", i, d, err, tt)
		}
	}
}

func TestXTimeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &adapters.XTimeRate{}
		ask(t, l)

		time.Sleep(6 * time.Second)
		if d, err := l.Allow(t.Context(), "key", limit, 1); err != nil || !d.Allowed {
			t.Errorf("after the wait: %+v, %v", d, err)
		}
	})
}

func TestRedisRate(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: startRedis(t)})
	defer client.Close()

	ask(t, adapters.RedisRate{Limiter: redis_rate.NewLimiter(client)})
}

// A migration from one library to the other, with the same limit.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	pair, err := shadow.NewPair(shadow.PairConfig{
		Name:          "checkout",
		Authoritative: shadow.Side{Limiter: &adapters.XTimeRate{}, Limit: limit},
		Candidate:     shadow.Side{Limiter: adapters.RedisRate{Limiter: redis_rate.NewLimiter(client)}, Limit: limit},
	})
	if err == nil {
		err = pair.Start(context.Background())
	}
	if err != nil {
		panic(err)
	}
	defer pair.Close(context.Background())

	fmt.Println(pair.Allow(context.Background(), "alice", 1).Allowed)
	// Output: true
}

// startRedis starts a redis-server for one test and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()

	path, err := exec.LookPath("redis-server")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("CI needs redis-server: integration/components.sh installs it")
	case err != nil:
		t.Skip("no redis-server on PATH")
	}

	// The system chooses a free port, which redis-server cannot.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()

	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if strings.Contains(scanner.Text(), "Ready to accept") {
			go func() { // reads on, because a full pipe would block the server
				for scanner.Scan() {
				}
			}()
			return addr
		}
	}

	t.Fatal("redis-server does not start")
	return ""
}
