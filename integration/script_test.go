package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/lua"
)

// eachStore runs a test on every real server and on miniredis, whose Lua has no struct.
func eachStore(t *testing.T, test func(t *testing.T, addr string)) {
	eachServer(t, func(t *testing.T, s server) { test(t, s.addr) })
	t.Run("miniredis", func(t *testing.T) { test(t, miniredis.RunT(t).Addr()) })
}

func limitOf(a algorithms.Algorithm) algorithms.Limit {
	l := algorithms.Limit{Requests: 10, Window: time.Minute}
	if a.Validate(l) != nil {
		l.Burst = 5
	}
	return l
}

// check makes a check of cost 1, at seconds after noon. at below 0 means the server's
// time.
func check(key string, at int, sides ...algorithms.Algorithm) algorithms.Check {
	c := algorithms.Check{Policy: "p", Key: key, Cost: 1}
	if at >= 0 {
		c.At = time.Date(2026, 1, 2, 12, 0, at, 0, time.UTC)
	}
	for i, a := range sides {
		c.Sides[i] = algorithms.Side{ID: [2]string{"today", "tomorrow"}[i], Algorithm: a, Limit: limitOf(a)}
	}
	return c
}

func evaluate(t testing.TB, pair algorithms.Pair, checks ...algorithms.Check) [][2]algorithms.Observation {
	t.Helper()
	into := make([][2]algorithms.Observation, len(checks))
	if err := pair.Evaluate(context.Background(), checks, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func get(t testing.TB, client redis.UniversalClient, key string) string {
	t.Helper()
	value, err := client.Get(context.Background(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return value
}

// TestCandidateChangesNothingOfTheAuthoritative compares the bytes of an authoritative's
// part of a record, alone and beside candidates that come, change and go in mid-traffic.
func TestCandidateChangesNothingOfTheAuthoritative(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		for _, a := range algorithms.All {
			for step := range 5 * len(algorithms.All) {
				alone := check("alone "+a.Name(), step*3, a)
				beside := check("beside "+a.Name(), step*3, a)
				if candidate := algorithms.All[step/5%len(algorithms.All)]; step%10 < 7 {
					id := fmt.Sprint("c", step/5)
					beside.Sides[1] = algorithms.Side{ID: id, Algorithm: candidate, Limit: limitOf(candidate)}
					beside.Enforced = algorithms.Role(step % 2)
				}

				into := evaluate(t, pair, alone, beside)
				if into[0][0].Err != nil || into[0][0].Decision != into[1][0].Decision {
					t.Fatalf("%s, step %d: alone %+v, beside a candidate %+v", a.Name(), step, into[0][0], into[1][0])
				}

				part := get(t, client, pair.RecordKey("p", alone.Key))
				record := get(t, client, pair.RecordKey("p", beside.Key))
				if part == "" || !strings.Contains(record, part) {
					t.Fatalf("%s, step %d: record %q, want the bytes %q of the authoritative alone", a.Name(), step, record, part)
				}
			}
		}
	})
}

func TestWrongTypeHurtsOneSideAlone(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		for r, sides := range [][2]algorithms.Algorithm{
			{algorithms.SlidingWindowLog{}, algorithms.GCRA{}},
			{algorithms.GCRA{}, algorithms.SlidingWindowLog{}},
		} {
			key := fmt.Sprint("key ", r)
			c := check(key, 0, sides[0], sides[1])
			if err := client.Set(context.Background(), pair.LogKey("p", key, c.Sides[r].ID), "no set", 0).Err(); err != nil {
				t.Fatal(err)
			}

			o := evaluate(t, pair, c)[0]
			if o[r].Err == nil || !strings.Contains(o[r].Err.Error(), "WRONGTYPE") {
				t.Errorf("the log on a string: %v, want WRONGTYPE", o[r].Err)
			}
			if other := o[1-r]; other.Err != nil || other.Decision.Remaining != 9 {
				t.Errorf("the other side: %+v, want 9 remaining", other)
			}
		}

		// A record of another type belongs to someone else: both sides fail, and it stays.
		c := check("record", 0, algorithms.GCRA{}, algorithms.FixedWindow{})
		record := pair.RecordKey("p", "record")
		if err := client.RPush(context.Background(), record, "not ours").Err(); err != nil {
			t.Fatal(err)
		}
		if o := evaluate(t, pair, c)[0]; o[0].Err == nil || o[1].Err == nil {
			t.Errorf("a list for a record: %+v, want errors", o)
		}
		if n, err := client.LLen(context.Background(), record).Result(); n != 1 || err != nil {
			t.Errorf("the list has %d entries (%v), want it unchanged", n, err)
		}
	})
}

// TestRecordsLiveUntilUnused holds that a record and its log expire one second after the
// key is as if unused, by the server's clock.
func TestRecordsLiveUntilUnused(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		ctx := context.Background()

		for _, a := range algorithms.All {
			c := check(a.Name(), -1, a, algorithms.SlidingWindowLog{})
			o := evaluate(t, pair, c)[0]
			reset := max(o[0].Decision.ResetAfter, o[1].Decision.ResetAfter)

			ttl := client.PTTL(ctx, pair.RecordKey("p", c.Key)).Val()
			if ttl > reset+time.Second+time.Millisecond || ttl < reset {
				t.Errorf("%s: the record lives %s, want %s and at most a second more", a.Name(), ttl, reset)
			}

			logTTL := client.PTTL(ctx, pair.LogKey("p", c.Key, "tomorrow")).Val()
			if want := o[1].Decision.ResetAfter; logTTL > want+time.Second+time.Millisecond || logTTL < want {
				t.Errorf("%s: the log lives %s, want %s and at most a second more", a.Name(), logTTL, want)
			}

			injected := check("injected "+a.Name(), 0, a)
			evaluate(t, pair, injected)
			if ttl := client.PTTL(ctx, pair.RecordKey("p", injected.Key)).Val(); ttl < 59*time.Minute {
				t.Errorf("%s: a record of an injected instant lives %s, want an hour", a.Name(), ttl)
			}
		}
	})
}

// TestSideLeftOutKeepsItsTime holds that a side which is not judged for a while keeps its
// part, even if the judged side needs the record for a shorter time.
func TestSideLeftOutKeepsItsTime(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		both := check("k", -1, algorithms.GCRA{}, algorithms.FixedWindowAnchored{})
		both.Sides[1].Limit.Window = time.Hour
		evaluate(t, pair, both)

		alone := both
		alone.Sides[1] = algorithms.Side{}
		evaluate(t, pair, alone)

		if ttl := client.PTTL(context.Background(), pair.RecordKey("p", "k")).Val(); ttl < 59*time.Minute {
			t.Errorf("the record lives %s, want the hour that the side left out needs", ttl)
		}
		if o := evaluate(t, pair, both)[0]; o[1].Decision.Remaining != 8 {
			t.Errorf("the side left out has %d remaining, want 8", o[1].Decision.Remaining)
		}
	})
}

func TestRecordKeepsTwoParts(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, _ := newPair(t, addr)
		limitertest.RecordKeepsTwoParts(t, pair)
	})
}

// TestLogThatLostEntries removes entries from a log, and then the record that counts
// them. The remaining entries count.
func TestLogThatLostEntries(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		ctx := context.Background()

		for at := range 6 {
			evaluate(t, pair, check("k", at, algorithms.SlidingWindowLog{}))
		}

		if err := client.ZPopMin(ctx, pair.LogKey("p", "k", "today"), 2).Err(); err != nil {
			t.Fatal(err)
		}
		o := evaluate(t, pair, check("k", 6, algorithms.SlidingWindowLog{}))[0][0]
		if o.Err != nil || o.Decision.Remaining != 5 {
			t.Errorf("4 of 6 entries are left and one is added: %+v, want 5 remaining", o)
		}

		if err := client.Del(ctx, pair.RecordKey("p", "k")).Err(); err != nil {
			t.Fatal(err)
		}

		for at, want := range []int64{9, 8} {
			o := evaluate(t, pair, check("k", 7+at, algorithms.SlidingWindowLog{}))[0][0]
			if o.Err != nil || o.Decision.Remaining != want {
				t.Errorf("without its record: %+v, want %d remaining", o, want)
			}
		}

		if n := client.ZCard(ctx, pair.LogKey("p", "k", "today")).Val(); n != 2 {
			t.Errorf("the log holds %d entries, want the 2 since its record went", n)
		}
	})
}

func TestServerTimeIsReadOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)

		before := client.Time(context.Background()).Val()
		o := evaluate(t, pair, check("k", -1, algorithms.GCRA{}, algorithms.SlidingWindowLog{}))[0]
		after := client.Time(context.Background()).Val()

		if o[0].At != o[1].At || o[0].At.Before(before.Truncate(time.Microsecond)) || o[0].At.After(after) {
			t.Errorf("judged at %s and %s, want one instant from %s to %s", o[0].At, o[1].At, before, after)
		}
	})
}

// TestForgottenScriptsAreLoadedAgain flushes the server's scripts while several
// callers charge, alone and in pipelines.
func TestForgottenScriptsAreLoadedAgain(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		ctx, stop := context.WithCancel(context.Background())

		var flusher, callers sync.WaitGroup
		flusher.Go(func() {
			for ctx.Err() == nil {
				client.ScriptFlush(ctx)
			}
		})

		for caller := range 4 {
			callers.Go(func() {
				for i := range 100 {
					checkNewKeys(t, pair, fmt.Sprintf("%d/%d", caller, i), i)
				}
			})
		}

		callers.Wait()
		stop()
		flusher.Wait()
	})
}

// checkNewKeys charges one to three new keys in one call, by algorithms that depend on
// i. A script that ran twice, or not at all, shows in what remains.
func checkNewKeys(t *testing.T, pair algorithms.Pair, prefix string, i int) {
	all := algorithms.All
	list := make([]algorithms.Check, 1+i%3)
	for j := range list {
		list[j] = check(fmt.Sprint(prefix, "/", j), 0, all[i%len(all)], all[(i+j+1)%len(all)])
	}

	for _, o := range evaluate(t, pair, list...) {
		for _, side := range o {
			if side.Err != nil {
				t.Errorf("%s: %v", prefix, side.Err)
			} else if want := side.Decision.Capacity - 1; side.Decision.Remaining != want {
				t.Errorf("%s: %d remaining, want %d: the script ran twice or not at all", prefix, side.Decision.Remaining, want)
			}
		}
	}
}

func TestSecretKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		_, client := newPair(t, addr)
		pair, err := lua.New(client, lua.Config{Name: "secret", Secret: []byte("hush")})
		if err != nil {
			t.Fatal(err)
		}

		record := pair.RecordKey("p", "alice@example.com")
		if strings.Contains(record, "alice") {
			t.Errorf("key %q shows the client, which the secret should hide", record)
		}

		evaluate(t, pair, check("alice@example.com", -1, algorithms.GCRA{}))
		if get(t, client, record) == "" {
			t.Errorf("no record at %q", record)
		}
	})
}
