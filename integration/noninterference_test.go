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

// watched is a policy file with a candidate; "" means none.
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

// world is a service with any candidate, on a Redis that it shares with other worlds
// under its own name.
type world struct {
	name    string
	handler http.Handler
	harness *shadow.Harness
	pair    *lua.Pair               // names the records
	between func(key string, n int) // disturbs the world before request n for a key
}

var errCandidate = errors.New("the candidate fails")

// customCandidates misbehave in every way. The one that hangs does so until released.
func customCandidates(released <-chan struct{}) map[string]shadow.Limiter {
	limiter := func(do func() (algorithms.Decision, error)) shadow.Limiter {
		allow := func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) { return do() }
		return shadow.LimiterFunc(allow)
	}

	return map[string]shadow.Limiter{
		"errs":   limiter(func() (algorithms.Decision, error) { return algorithms.Decision{}, errCandidate }),
		"panics": limiter(func() (algorithms.Decision, error) { panic(errCandidate) }),
		"hangs": limiter(func() (algorithms.Decision, error) {
			<-released
			return algorithms.Decision{}, nil
		}),
		"garbage": limiter(func() (algorithms.Decision, error) {
			d := algorithms.Decision{Capacity: -1, Remaining: -99, RetryAfter: -time.Hour, ResetAfter: -1, Delay: time.Hour}
			return d, nil
		}),
	}
}

// worldCandidates are the candidates of the worlds: none, equal and different
// algorithms, custom limiters, stores that fail, a limit that fails, two whose state
// or configuration worlds disturbs, and those that are synchronized with a Redis that answers,
// is dead, or stalls.
var worldCandidates = []string{
	"",
	"{ algorithm: gcra, limit: 3, window: 1m }",
	"{ algorithm: sliding_window_log, limit: 3, window: 1m }",
	"{ limiter: errs }",
	"{ limiter: panics }",
	"{ limiter: hangs }",
	"{ limiter: garbage }",
	"{ store: dead, algorithm: gcra, limit: 3, window: 1m }",
	"{ store: slow, algorithm: gcra, limit: 3, window: 1m }",
	"{ algorithm: gcra, limit: '1 / 0', window: 1m }",
	"{ algorithm: fixed_window, limit: 4, window: 1m }",
	"{ algorithm: gcra, id: broken, limit: 3, window: 1m }",
	"{ store: { sync: 10ms }, algorithm: gcra, limit: 3, window: 1m }",
	"{ store: { redis: dead, sync: 10ms }, algorithm: gcra, limit: 3, window: 1m }",
	"{ store: { redis: slow, sync: 10ms }, algorithm: token_bucket, limit: 5, window: 1m, burst: 7 }",
}

// worlds makes a world for each candidate. All of them must look like the first one,
// which has none.
func worlds(t *testing.T, client redis.UniversalClient, clock func() time.Time) []*world {
	released := make(chan struct{})

	stores := map[string]redis.UniversalClient{}
	for name, addr := range map[string]string{"dead": refusingAddress(t), "slow": deafServer(t)} {
		stores[name] = redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, 0))
		t.Cleanup(func() { stores[name].Close() })
	}
	cfg := shadow.Config{
		Redis: client, Stores: stores, Limiters: customCandidates(released),
		Clock: clock, Logger: slog.New(slog.DiscardHandler),
	}

	var list []*world
	for _, candidate := range worldCandidates {
		list = append(list, worldOf(t, cfg, candidate))
	}

	disturb(t, client, list)
	t.Cleanup(func() { close(released) }) // before the harnesses are closed, which wait for hanging limiters
	return list
}

func worldOf(t *testing.T, cfg shadow.Config, candidate string) *world {
	t.Helper()

	w := &world{name: namespace(), between: func(string, int) {}}
	cfg.Policies = watched(t, w.name, candidate)
	h, err := shadow.New(cfg)
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })

	pair, err := lua.New(cfg.Redis, lua.Config{Name: w.name})
	if err != nil {
		t.Fatal(err)
	}

	served := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "served") })
	w.harness, w.pair = h, pair
	w.handler = httplimit.New(h, httplimit.Config{OnDenied: httplimit.Problem})(served)
	return w
}

// disturb gives some worlds a disturbance before each request, and fills the queue of
// the candidate that hangs.
func disturb(t *testing.T, client redis.UniversalClient, list []*world) {
	full, broken, changed, overwritten := list[5], list[2], list[10], list[11]

	// The log of the candidate becomes a string.
	broken.between = func(key string, n int) {
		if n%3 == 1 {
			client.Set(context.Background(), pairLogKey(broken.pair, key), "garbage", time.Hour)
		}
	}

	overwritten.between = func(key string, _ int) { overwritten.breakParts(t, client, key) }

	changed.between = func(_ string, n int) {
		if err := changed.harness.Reload(watched(t, changed.name, worldCandidates[1+n%4])); err != nil {
			t.Error(err)
		}
	}

	const places = 3000 // more than all queues of a policy have
	for n := range places {
		full.ask(request{key: fmt.Sprint("filling-", n)})
	}
}

func pairLogKey(p *lua.Pair, key string) string {
	return p.LogKey("per-user", key, algorithms.SlidingWindowLog{}.Name())
}

// deafServer accepts connections and never answers.
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

// answer is everything that a client can see of a response.
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

// breakParts overwrites all parts of a record except the first, which belongs to the
// enforced side. It keeps the names of the parts.
func (w *world) breakParts(t testing.TB, client redis.UniversalClient, key string) {
	const name, part = 8, 40 // bytes

	record := []byte(w.record(t, client, key))
	for i := part; i+part <= len(record); i += part {
		copy(record[i+name:i+part], strings.Repeat("\xff", part))
	}

	if len(record) > 0 {
		client.Set(context.Background(), w.pair.RecordKey("per-user", key), record, redis.KeepTTL)
	}
}

// Whatever the candidate is or does, clients see the same bytes, and the state of the
// authoritative has the same bytes, as without a candidate.
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
		t.Error("no record has a part of the authoritative")
	}
	t.Logf("%d traces, %d requests in each of %d worlds", traces, requests, len(list))
}
