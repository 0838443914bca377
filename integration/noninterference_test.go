package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// watched is a policy file with a candidate, "" for none.
func watched(t testing.TB, name, candidate string) *policies.Set {
	t.Helper()

	text := "version: 1\nname: " + name + `
policies:
  - name: per-user
    key: request.headers["x-user"]
    cost: int(request.query["cost"])
    authoritative: { algorithm: token_bucket, limit: 5, window: 1m, burst: 7 }
`

	if candidate != "" {
		text += "    candidate: " + candidate + "\n"
	}

	set, err := policies.Load("watched.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	return set
}

// world is a service with a candidate that may be anything, on a Redis that it
// shares with others under a name of its own.
type world struct {
	name    string
	handler http.Handler
	harness *shadow.Harness
	pair    *lua.Pair // to look at records
	between func(key string, n int)
}

var errCandidate = errors.New("the candidate's own trouble")

// foreignCandidates misbehave; those that hang do so until released.
func foreignCandidates(released <-chan struct{}) map[string]shadow.Limiter {
	limiter := func(do func() (algorithms.Decision, error)) shadow.Limiter {
		return shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) { return do() })
	}

	return map[string]shadow.Limiter{
		"errs":   limiter(func() (algorithms.Decision, error) { return algorithms.Decision{}, errCandidate }),
		"panics": limiter(func() (algorithms.Decision, error) { panic(errCandidate) }),
		"hangs": limiter(func() (algorithms.Decision, error) {
			<-released
			return algorithms.Decision{}, nil
		}),
		"garbage": limiter(func() (algorithms.Decision, error) {
			return algorithms.Decision{Limit: -1, Remaining: -99, RetryAfter: -time.Hour, ResetAfter: -1, Delay: time.Hour}, nil
		}),
	}
}

// worlds are one without a candidate, first, and others that must look the same.
func worlds(t *testing.T, client redis.UniversalClient, clock func() time.Time) []*world {
	released := make(chan struct{})
	limiters := foreignCandidates(released)
	deaf, refusing := deafServer(t), refusingAddress(t)
	stores := map[string]redis.UniversalClient{}

	for name, addr := range map[string]string{"dead": refusing, "slow": deaf} {
		stores[name] = redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, 0))
		t.Cleanup(func() { stores[name].Close() })
	}

	candidates := []string{
		"", "{ algorithm: gcra, limit: 3, window: 1m }", "{ algorithm: sliding_window_log, limit: 3, window: 1m }",
		"{ limiter: errs }", "{ limiter: panics }", "{ limiter: hangs }", "{ limiter: garbage }",
		"{ store: dead, algorithm: gcra, limit: 3, window: 1m }", "{ store: slow, algorithm: gcra, limit: 3, window: 1m }",
		"{ algorithm: gcra, limit: '1 / 0', window: 1m }", "{ algorithm: fixed_window, limit: 4, window: 1m }",
		"{ algorithm: gcra, id: broken, limit: 3, window: 1m }",
	}

	var list []*world
	for _, candidate := range candidates {
		w := &world{name: namespace(), between: func(string, int) {}}
		h, err := shadow.New(shadow.Config{
			Policies: watched(t, w.name, candidate), Redis: client, Stores: stores, Limiters: limiters, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { h.Close(context.Background()) }) // a limiter that hangs is told of, until it is released

		pair, err := lua.New(client, lua.Config{Name: w.name})
		if err != nil {
			t.Fatal(err)
		}

		w.harness, w.pair = h, pair
		w.handler = httplimit.New(h, httplimit.Config{OnDenied: httplimit.Problem})(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "served") }))
		list = append(list, w)
	}

	broken, changed, full := list[2], list[10], list[5]
	broken.between = func(key string, n int) { // the candidate's part of the state is no longer one
		if n%3 == 1 {
			client.Set(context.Background(), pairLogKey(broken.pair, key), "garbage", time.Hour)
		}
	}

	list[11].between = func(key string, _ int) { list[11].breakParts(t, client, key) }
	changed.between = func(_ string, n int) {
		if err := changed.harness.Reload(watched(t, changed.name, candidates[1+n%4])); err != nil {
			t.Error(err)
		}
	}

	for n := range 3000 { // as many as all queues hold
		full.ask(request{key: fmt.Sprint("filling-", n)})
	}

	t.Cleanup(func() { close(released) })
	return list
}

func pairLogKey(p *lua.Pair, key string) string {
	return p.LogKey("per-user", key, algorithms.SlidingWindowLog{}.Name())
}

// deafServer accepts and never answers.
func deafServer(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()

	return l.Addr().String()
}

func refusingAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type request struct {
	key  string
	cost int64
	wait time.Duration
}

// answer is all that a client sees.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

func (w *world) ask(r request) answer {
	q := httptest.NewRequest("GET", "/?cost="+strconv.FormatInt(r.cost, 10), nil)
	q.Header.Set("X-User", r.key)
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, q)
	return answer{rec.Code, rec.Header(), rec.Body.String()}
}

func (w *world) record(t testing.TB, client redis.UniversalClient, key string) string {
	return get(t, client, w.pair.RecordKey("per-user", key))
}

// breakParts overwrites all parts of a record but the first, which is the enforced
// side's, and keeps their names.
func (w *world) breakParts(t testing.TB, client redis.UniversalClient, key string) {
	const name, part = 8, 40
	record := []byte(w.record(t, client, key))
	for i := part; i+part <= len(record); i += part {
		copy(record[i+name:i+part], strings.Repeat("\xff", part))
	}
	if len(record) > 0 {
		client.Set(context.Background(), w.pair.RecordKey("per-user", key), record, redis.KeepTTL)
	}
}

// Whatever the candidate is or does, clients see the same, byte by byte, and the
// authoritative's state is the same, as if there were none.
func TestCandidatesDoNotInterfere(t *testing.T) {
	addr := privateServer(t)
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, time.Second))
	t.Cleanup(func() { client.Close() })
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro())
	list := worlds(t, client, func() time.Time { return time.UnixMicro(now.Load()) })

	traces, requests, parts := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		traces++
		trace := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
			return request{
				key:  fmt.Sprint("trace-", traces, "-", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")),
				cost: rapid.Int64Range(0, 8).Draw(rt, "cost"),
				wait: time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(rt, "wait")),
			}
		}), 1, 12).Draw(rt, "trace")

		var keys []string
		for n, r := range trace {
			now.Add(r.wait.Microseconds())

			var want answer
			for i, w := range list {
				w.between(r.key, n)
				if got := w.ask(r); i == 0 {
					want = got
				} else if !reflect.DeepEqual(got, want) {
					rt.Fatalf("world %d, request %d, %+v:\n%+v\nwithout a candidate\n%+v", i, n, r, got, want)
				}
			}

			requests++
			keys = append(keys, r.key)
		}

		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			want := list[0].record(t, client, key)
			if want != "" {
				parts++
			}

			for i, w := range list[1:] {
				if got := w.record(t, client, key); !strings.HasPrefix(got, want) {
					rt.Fatalf("world %d, key %s: the record is %x, without a candidate %x", i+1, key, got, want)
				}
			}
		}
	})

	if parts == 0 {
		t.Error("no part of the authoritative's was found")
	}

	t.Logf("%d traces, %d requests in each of %d worlds", traces, requests, len(list))
}
