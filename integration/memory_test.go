package integration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// fullRedis is a Redis of its own whose memory a test bounds.
type fullRedis struct {
	t      *testing.T
	client *redis.Client
	pair   *lua.Pair
}

func newFullRedis(t *testing.T) *fullRedis {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: privateServer(t, "--maxmemory-policy", "noeviction")})
	t.Cleanup(func() { client.Close() })

	pair, err := lua.New(client, lua.Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &fullRedis{t, client, pair}
}

// used returns the bytes that Redis counts against its maxmemory.
func (r *fullRedis) used() int64 {
	r.t.Helper()
	info, err := r.client.Info(r.t.Context(), "memory").Result()
	if err != nil {
		r.t.Fatal(err)
	}

	_, rest, _ := strings.Cut(info, "used_memory:")
	line, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// leave bounds the memory to the used bytes and a number of bytes more.
func (r *fullRedis) leave(bytes int64) {
	r.t.Helper()
	if err := r.client.ConfigSet(r.t.Context(), "maxmemory", fmt.Sprint(max(1, r.used()+bytes))).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fullRedis) ask(checks ...algorithms.Check) [][2]algorithms.Observation {
	r.t.Helper()
	into := make([][2]algorithms.Observation, len(checks))
	if err := r.pair.Evaluate(r.t.Context(), checks, into); err != nil {
		r.t.Fatal(err)
	}
	return into
}

// logCheck is a check whose enforced side is the algorithm, and whose other side is a log. Within an hour both admit 300.
func logCheck(enforced algorithms.Algorithm, key string, at time.Time) algorithms.Check {
	c := algorithms.Check{Policy: "p", Key: key, Cost: 1, At: at}
	limit := algorithms.Limit{Requests: 300, Window: time.Hour}
	c.Sides[algorithms.Authoritative] = algorithms.Side{ID: "enforced", Algorithm: enforced, Limit: limit}
	c.Sides[algorithms.Candidate] = algorithms.Side{ID: "log", Algorithm: algorithms.SlidingWindowLog{}, Limit: limit}
	return c
}

// A candidate's logs fill Redis. The enforced side answers as if there were no candidate, and where both sides are compared
// their answers are the same: a loss of a log is never taken for a difference.
func TestLogsAreGivenUpForMemory(t *testing.T) {
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, enforced := range []algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.SlidingWindowLog{}} {
		t.Run(enforced.Name(), func(t *testing.T) {
			r := newFullRedis(t)
			alone := algorithms.NewMemory(algorithms.MemoryConfig{})
			shed, compared := 0, 0

			// An enforced log needs its own room. That of the candidate's is for a third of its entries.
			room := int64(400_000)
			if enforced.Name() == (algorithms.SlidingWindowLog{}).Name() {
				room += 30 * 300 * 150
			}

			// Each client sends more than its limit within the hour, and once more after three hours.
			checks, expected := make([]algorithms.Check, 30), make([][2]algorithms.Observation, 30)
			for n := range 321 {
				at := start.Add(time.Duration(n) * time.Second)
				if n == 320 {
					at = start.Add(3 * time.Hour)
				}
				for k := range checks {
					checks[k] = logCheck(enforced, fmt.Sprint("client-", k), at)
				}
				if n == 1 {
					r.leave(room)
				}

				observed := r.ask(checks...)
				for k := range checks {
					checks[k].Sides[algorithms.Candidate] = algorithms.Side{}
				}
				if err := alone.Evaluate(t.Context(), checks, expected); err != nil {
					t.Fatal(err)
				}

				for k := range observed {
					got, log := &observed[k][algorithms.Authoritative], &observed[k][algorithms.Candidate]
					if want := expected[k][algorithms.Authoritative]; got.Err != nil || got.Decision != want.Decision {
						t.Fatalf("request %d of client %d: %+v, without a candidate %+v", n, k, got, want)
					}

					switch {
					case errors.Is(log.Err, lua.ErrLogShed):
						shed++
					case log.Err != nil:
						t.Fatalf("request %d of client %d: %v", n, k, log.Err)
					case log.Decision.Allowed != got.Decision.Allowed:
						t.Fatalf("request %d of client %d: a difference: %+v, %+v", n, k, got, log)
					default:
						compared++
					}
				}
			}

			t.Logf("%d without an answer of the log, %d compared", shed, compared)
			if shed == 0 || compared == 0 {
				t.Error("no log was given up, or no answers were compared: the bound of the memory is wrong")
			}
		})
	}
}

// A log that was given up begins again after a window, or at once where it is enforced, and says that it has lost checks.
func TestLogBeginsAgain(t *testing.T) {
	r := newFullRedis(t)
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for range 100 {
		r.ask(logCheck(algorithms.GCRA{}, "k", now), logCheck(algorithms.GCRA{}, "moved", now))
	}
	r.leave(0)
	r.ask(logCheck(algorithms.GCRA{}, "k", now), logCheck(algorithms.GCRA{}, "moved", now))
	for _, key := range []string{"k", "moved"} {
		if n := r.client.Exists(t.Context(), r.pair.LogKey("p", key, "log")).Val(); n != 0 {
			t.Errorf("the log of %s is still there", key)
		}
	}

	// There is no log to be given up any more. A record that is there is written over.
	if o := r.ask(logCheck(algorithms.GCRA{}, "k", now))[0]; o[0].Err != nil || !errors.Is(o[1].Err, lua.ErrLogShed) {
		t.Errorf("while Redis is full: %+v", o)
	}

	r.leave(1 << 20)
	later := now.Add(time.Hour - time.Microsecond)
	if o := r.ask(logCheck(algorithms.GCRA{}, "k", later))[0]; o[0].Err != nil || !errors.Is(o[1].Err, lua.ErrLogShed) {
		t.Errorf("within the window: %+v", o)
	}
	later = later.Add(time.Second)
	if o := r.ask(logCheck(algorithms.GCRA{}, "k", later))[0]; o[1].Decision.Remaining != 299 || !o[1].Lost || o[0].Lost {
		t.Errorf("after the window: %+v", o)
	}

	moved := logCheck(algorithms.GCRA{}, "moved", now)
	moved.Enforced = algorithms.Candidate
	if o := r.ask(moved)[0]; o[1].Err != nil || o[1].Decision.Remaining != 299 || !o[1].Lost {
		t.Errorf("enforced: %+v", o)
	}
}

// The log of a deferred check is given up as well, and the enforced side's part stays as it is.
func TestDeferredLogIsGivenUp(t *testing.T) {
	r := newFullRedis(t)
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	c := logCheck(algorithms.GCRA{}, "k", now)
	before := r.ask(c)[0][algorithms.Authoritative]
	r.leave(0)

	deferred := c
	deferred.Enforced, deferred.Deferred = algorithms.Candidate, true
	deferred.Sides[algorithms.Authoritative] = algorithms.Side{}
	if o := r.ask(deferred)[0]; !errors.Is(o[algorithms.Candidate].Err, lua.ErrLogShed) {
		t.Errorf("the log answers %+v", o)
	}

	r.leave(1 << 20)
	c.Sides[algorithms.Candidate] = algorithms.Side{}
	if o := r.ask(c)[0][algorithms.Authoritative]; o.Err != nil || o.Decision.Remaining != before.Decision.Remaining-1 {
		t.Errorf("the enforced side answers %+v after %+v", o, before)
	}
}

// Where Redis has no memory, a denial of the enforced side is an answer, whatever the log has to write.
func TestFullRedisAnswersADenialBesideALog(t *testing.T) {
	for _, known := range []bool{true, false} {
		r := newFullRedis(t)
		now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		c := logCheck(algorithms.FixedWindow{}, "k", now)
		c.Sides[algorithms.Authoritative].Limit.Requests = 1
		if known {
			r.ask(c)
		} else {
			c.Cost = 2
		}
		r.leave(0)
		o := r.ask(c)[0]
		if o[0].Err != nil || o[0].Decision.Allowed || o[1].Err == nil || known != errors.Is(o[1].Err, lua.ErrLogShed) {
			t.Errorf("known %t: %+v", known, o)
		}
		if !known {
			continue
		}

		r.leave(1 << 20)
		c.Enforced = algorithms.Candidate
		if o := r.ask(c)[0]; !o[1].Lost || o[1].Decision.Remaining != 299 {
			t.Errorf("enforced, the log begins again and does not say so: %+v", o)
		}
	}
}

// The bound that validate prints for a log is not too low, nor twice too high.
func TestBytesOfALog(t *testing.T) {
	r := newFullRedis(t)
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, entries := range []int{150, 1025, 10_000} {
		checks := make([]algorithms.Check, entries)
		for i := range checks {
			c := algorithms.Check{Policy: "p", Key: fmt.Sprint(entries), Cost: 1, At: start.Add(time.Duration(i) * time.Millisecond)}
			limit := algorithms.Limit{Requests: int64(entries), Window: time.Hour}
			c.Sides[0] = algorithms.Side{ID: "log", Algorithm: algorithms.SlidingWindowLog{}, Limit: limit}
			checks[i] = c
		}
		r.ask(checks...)

		key := r.pair.LogKey("p", fmt.Sprint(entries), "log")
		bytes := float64(r.client.MemoryUsage(t.Context(), key, 0).Val()) / float64(entries)
		if bytes > algorithms.LogEntryBytes || bytes < algorithms.LogEntryBytes/2 {
			t.Errorf("%d entries take %.1f bytes each, and LogEntryBytes is %d", entries, bytes, algorithms.LogEntryBytes)
		}
		t.Logf("%d entries take %.1f bytes each", entries, bytes)
	}
}

// A Redis without memory refuses the checks that write. It still denies keys that have spent
// their limit: no breaker keeps requests off it, however many keys are refused.
func TestFullRedisStillDenies(t *testing.T) {
	r := newFullRedis(t)
	set, err := policies.Load("full.yaml", []byte("version: 1\nname: "+namespace()+"\npolicies:\n"+
		"  - { name: p, key: request.user, authoritative: { algorithm: gcra, limit: 2, window: 1h } }\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := harnessOf(t, shadow.Config{Policies: set, Redis: r.client})
	ask := func(user string) shadow.Decision { return h.Decide(t.Context(), &policies.Request{User: user}) }
	for range 2 {
		if d := ask("spent"); !d.Allowed || d.Fallback {
			t.Fatalf("%+v", d)
		}
	}

	r.leave(-1 << 30)
	for n := range 20 {
		if d := ask(fmt.Sprint("fresh ", n)); !d.Fallback {
			t.Fatalf("request %d: %+v, want Redis to refuse it", n, d)
		}
	}
	if d := ask("spent"); d.Allowed || d.Fallback {
		t.Errorf("%+v, want the denial of Redis", d)
	}
}
