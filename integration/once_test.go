package integration

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// deafProxy forwards requests, and drops the answers of the server from the first script
// on.
func deafProxy(t *testing.T, server string) (addr string) {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	t.Cleanup(func() { listener.Close(); wg.Wait() })

	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}

			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}

			var deaf atomic.Bool
			wg.Go(func() {
				pump(upstream, client, func([]byte) bool { return !deaf.Load() })
				client.Close()
			})
			wg.Go(func() {
				pump(client, upstream, func(said []byte) bool {
					if bytes.Contains(said, []byte("eval")) {
						deaf.Store(true)
					}
					return true
				})
				upstream.Close()
			})
		}
	})

	return listener.Addr().String()
}

// pump copies the chunks that pass accepts until either end closes.
func pump(from, to net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 1<<16)

	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !pass(buf[:n]) {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// executions returns the number of scripts that the server has run.
func executions(t *testing.T, client redis.UniversalClient) (n int) {
	t.Helper()

	info, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(info) {
		if rest, found := strings.CutPrefix(line, "cmdstat_eval"); found {
			_, calls, _ := strings.Cut(rest, "calls=")
			calls, _, _ = strings.Cut(calls, ",")
			count, err := strconv.Atoi(calls)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			n += count
		}
	}

	return n
}

// TestScriptWithoutAnswerIsNotSentAgain counts executions on the server for a client that
// has go-redis's default retries and never gets an answer.
func TestScriptWithoutAnswerIsNotSentAgain(t *testing.T) {
	addr := privateServer(t)
	watch := redis.NewClient(&redis.Options{Addr: addr})
	defer watch.Close()

	retrying := redis.NewClient(&redis.Options{
		Addr: deafProxy(t, addr), MaxRetries: 3, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond,
		ReadTimeout: 100 * time.Millisecond,
	})
	defer retrying.Close()

	pair, err := lua.New(retrying, lua.Config{Name: "once"})
	if err != nil {
		t.Fatal(err)
	}

	limit := algorithms.Limit{Requests: 10, Window: time.Hour}
	side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: limit}
	for _, checks := range []int{1, 3} {
		before := executions(t, watch)

		list := make([]algorithms.Check, checks)
		for i := range list {
			list[i] = algorithms.Check{Policy: "p", Key: strconv.Itoa(i), Cost: 1, Sides: [2]algorithms.Side{side}}
		}

		into := make([][2]algorithms.Observation, checks)
		if err := pair.Evaluate(context.Background(), list, into); err != nil {
			t.Fatal(err)
		}

		for i := range into {
			if into[i][0].Err == nil {
				t.Errorf("check %d has an answer that was swallowed", i)
			}
		}

		if ran := executions(t, watch) - before; ran != checks {
			t.Errorf("%d checks without an answer ran %d times", checks, ran)
		}
	}

	// The same client, asked by other means, does retry: the proof can fail.
	before := executions(t, watch)
	_ = retrying.Eval(context.Background(), "return 1", nil).Err()
	if ran := executions(t, watch) - before; ran != 4 {
		t.Errorf("go-redis ran a plain script %d times, want its 1+3: this test proves nothing", ran)
	}
}
