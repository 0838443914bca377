package shadow

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// Instances that start without Redis allow a limit each: n of them n times the limit, and no
// more. Each says so in its log. One that starts with Redis says nothing of it.
func TestStartsWithoutRedisAllowALimitEach(t *testing.T) {
	const limit, instances = 100, 5
	start := func(addr string) (allowed int, log string) {
		var text bytes.Buffer
		client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, time.Second))
		defer client.Close()
		p, err := NewPair(PairConfig{
			Redis: client, Logger: slog.New(slog.NewTextHandler(&text, nil)),
			Authoritative: Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: limit, Window: 24 * time.Hour}},
			Candidate:     Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: limit, Window: time.Hour}},
		})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * limit {
			if p.Allow(t.Context(), "client", 1).Allowed {
				allowed++
			}
		}
		p.Close(context.Background())
		return allowed, text.String()
	}

	const warning = "n instances that start so allow n times a limit"
	sum := 0
	for range instances {
		allowed, log := start("127.0.0.1:1")
		if sum += allowed; strings.Count(log, warning) != 1 {
			t.Errorf("no warning, or several:\n%s", log)
		}
	}
	if sum != instances*limit {
		t.Errorf("%d instances allow %d, want %d", instances, sum, instances*limit)
	}

	if allowed, log := start(miniredis.RunT(t).Addr()); allowed != limit || strings.Contains(log, warning) {
		t.Errorf("with Redis: %d allowed\n%s", allowed, log)
	}
}

// A harness that is not started decides by the authoritative. It can be closed, and is started
// once at most.
func TestNewAloneStartsNothing(t *testing.T) {
	limit := algorithms.Limit{Requests: 1, Window: time.Hour}
	open := func() *Pair {
		p, err := NewPair(PairConfig{
			Authoritative: Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
			Candidate:     Side{Algorithm: algorithms.GCRA{}, Limit: limit},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := runtime.NumGoroutine()
	p := open()
	if first, second := p.Allow(t.Context(), "a", 1), p.Allow(t.Context(), "a", 1); !first.Allowed || second.Allowed ||
		second.Enforced != algorithms.Authoritative {
		t.Errorf("%+v, then %+v; want the authoritative's one", first, second)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before New", n, before)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Start(t.Context()); !errors.Is(err, errBegun) {
		t.Errorf("started after Close: %v", err)
	}

	p = open()
	defer p.Close(context.Background())
	if first, second := p.Start(t.Context()), p.Start(t.Context()); first != nil || !errors.Is(second, errBegun) {
		t.Errorf("started twice: %v, then %v", first, second)
	}
}
