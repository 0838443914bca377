package evidence_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

var ofPolicy = evidence.ID{Policy: "p", Evidence: "e"}

const keysOfPolicy = "shadowlimit1:{test:p}:ledger:e:"

// clocked is a ledger whose time a test lets pass.
type clocked struct {
	evidence.Ledger
	now  func() time.Time
	pass func(time.Duration)
}

// onBoth runs a test with a MemoryLedger, and with a RedisLedger on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, l clocked)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, clocked{evidence.NewMemoryLedger(), time.Now, time.Sleep})
		})
	})
	t.Run("Redis", func(t *testing.T) {
		l, _, _ := onMiniredis(t)
		test(t, l)
	})
}

func onMiniredis(t *testing.T) (clocked, *miniredis.Miniredis, *redis.Client) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	now := noon
	server.SetTime(now)
	return clocked{evidence.NewRedisLedger(client, "test"), func() time.Time { return now }, func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
		server.FastForward(d)
	}}, server, client
}

// write writes what a recorder has counted.
func (l clocked) write(t *testing.T, r *evidence.Recorder) {
	t.Helper()
	b := r.Batch(l.now(), false)
	if dropped, err := l.Add(t.Context(), ofPolicy, b); err != nil || dropped != 0 {
		t.Fatal(dropped, err)
	}
	r.Written(b)
}

// history reads, and stores as a leader does if leads.
func (l clocked) history(t *testing.T, r *evidence.Reader, leads bool) evidence.History {
	t.Helper()
	h, err := r.History(t.Context(), l.now())
	if err == nil && leads {
		err = r.Store(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// For a day and a half an instance counts one comparison a minute. Hours outlive their slots, also of an instance that writes hours late.
// Leaders follow one another, and one of them was frozen. A leader that goes on, one that begins, and one that only reads see each minute
// once.
func TestHoursOutliveTheirSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, l clocked) {
		begin := l.now().Truncate(time.Hour).Add(30 * time.Minute)
		l.pass(begin.Sub(l.now()))
		prompt, late := evidence.NewRecorder(nil), evidence.NewRecorder(nil)
		leader, frozen := evidence.NewReader(l, ofPolicy, begin), evidence.NewReader(l, ofPolicy, begin)
		one := &evidence.Setting{Cost: 1}
		var first evidence.History
		var kept []evidence.Minute
		const minutes = 36 * 60
		for m := range minutes {
			prompt.Observe("k", 7, l.now(), observed(evidence.NewlyDenied), one)
			late.Observe("k", 7, l.now(), observed(evidence.AgreeAllow), one)
			l.write(t, prompt)
			if m%110 == 109 { // it was cut off
				for late.Changed() {
					l.write(t, late)
				}
			}
			switch {
			case m%97 == 0:
				l.history(t, frozen, false)
			case m%97 == 50:
				if err := frozen.Store(t.Context()); err != nil {
					t.Fatal(err)
				}
			case m%300 == 299:
				leader = evidence.NewReader(l, ofPolicy, begin)
			case m%7 == 0:
				h := l.history(t, leader, true)
				if m < 1000 {
					first, kept = h, slices.Clone(h.Minutes)
				}
			}
			l.pass(time.Minute)
		}
		for late.Changed() {
			l.write(t, late)
		}

		h := l.history(t, leader, true)
		fresh := l.history(t, evidence.NewReader(l, ofPolicy, begin), false)
		if !reflect.DeepEqual(h.Minutes, fresh.Minutes) || !reflect.DeepEqual(h.Live, fresh.Live) {
			t.Errorf("a leader has %d minutes in %v, a new reader %d in %v", len(h.Minutes), h.Live, len(fresh.Minutes), fresh.Live)
		}
		if len(h.Minutes) != minutes || h.Minutes[0].Unix != begin.Unix()/60 || len(h.Live) != 1 {
			t.Fatalf("%d minutes from %d on in %v, want %d from %d on", len(h.Minutes), h.Minutes[0].Unix, h.Live, minutes, begin.Unix()/60)
		}
		for _, m := range h.Minutes {
			if m.Tally != (evidence.Tally{evidence.AgreeAllow: 1, evidence.NewlyDenied: 1}) {
				t.Fatalf("minute %d has %v", m.Unix, m.Tally)
			}
		}
		if causes := h.Causes(); causes.Denied[evidence.OtherCause] != minutes {
			t.Errorf("causes %+v, want %d", causes, minutes)
		}
		if !reflect.DeepEqual(first.Minutes, kept) {
			t.Error("a later read has changed the minutes of an earlier history")
		}
	})
}

// Without a leader for longer than slots live, hours are missing, whole, and the others are not.
func TestHoursWithoutALeaderAreMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, l clocked) {
		l.pass(l.now().Truncate(time.Hour).Add(time.Hour).Sub(l.now()))
		begin, r := l.now(), evidence.NewRecorder(nil)
		leader := evidence.NewReader(l, ofPolicy, begin)
		for m := range 12 * 60 {
			r.Observe("k", 7, l.now(), observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
			l.write(t, r)
			if m < 3*60 || m >= 9*60 {
				l.history(t, leader, true)
			}
			l.pass(time.Minute)
		}
		h := l.history(t, leader, true)
		hour := begin.Unix() / 3600
		want := []evidence.Span{{From: hour * 60, To: (hour + 2) * 60}, {From: (hour + 6) * 60, To: (hour + 12) * 60}}
		if !slices.Equal(h.Live, want) || len(h.Minutes) != 8*60 {
			t.Errorf("%d minutes live %v, want %v", len(h.Minutes), h.Live, want)
		}
	})
}

// The clock of a store may go ahead for a day and back. What was counted before counts again then. A recorder that has closed the hours
// before counts the first comparisons in a slot of the future, which takes nothing.
func TestClocksThatGoBack(t *testing.T) {
	l, server, _ := onMiniredis(t)
	r, reader := evidence.NewRecorder(nil), evidence.NewReader(l, ofPolicy, noon)
	for i, jump := range []time.Duration{0, time.Minute, 24 * time.Hour, 2 * time.Minute, 3 * time.Minute} {
		now := noon.Add(jump)
		server.SetTime(now)
		l.now = func() time.Time { return now }
		r.Observe("k", 1, now, observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
		b := r.Batch(now, false)
		if _, err := l.Add(t.Context(), ofPolicy, b); err != nil {
			t.Fatal(err)
		}
		r.Written(b)
		h := l.history(t, reader, false)
		if want := []int64{1, 2, 1, 2, 3}[i]; h.Total().Comparisons() != want {
			t.Errorf("step %d: %d comparisons, want %d", i, h.Total().Comparisons(), want)
		}
	}
}

// A ledger that has lost its data is read from its beginning, and its script again.
func TestLostDataIsNotRemembered(t *testing.T) {
	l, server, client := onMiniredis(t)
	r, reader := evidence.NewRecorder(nil), evidence.NewReader(l, ofPolicy, noon)
	for round, want := range []int64{1, 2, 1, 2} {
		if round == 2 {
			server.FlushAll()
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if h := l.history(t, reader, true); len(h.Minutes)+len(h.Live) != 0 {
				t.Errorf("after a loss of data: %v", h)
			}
		}
		r.Observe("k", 7, l.now(), observed(evidence.AgreeAllow), &evidence.Setting{Cost: 1})
		l.write(t, r)
		if h := l.history(t, reader, true); h.Total().Comparisons() != want {
			t.Errorf("round %d: %d comparisons, want %d", round, h.Total().Comparisons(), want)
		}
		l.pass(time.Minute)
	}
}

// A field that cannot be read or believed fails the history and names its key, and does so until it is gone. Instances go on writing, and
// triggers have all other counts.
func TestUnreadableFields(t *testing.T) {
	for field, text := range map[string]string{
		"t2": "-9", "t0": "x", "l": "99999999999999", "t10": "1", "": "1", "z": "1", "k0": "short", "k9": "12345678", "p": "x", "p9": "1",
		"p95k": "1", "0t2": "-9", "0h": "123", "9t2": "1", "0d": "x", "0dx": "1", "0d99999999999": "1",
	} {
		l, server, client := onMiniredis(t)
		r, reader := evidence.NewRecorder(nil), evidence.NewReader(l, ofPolicy, noon)
		enforced := &evidence.Setting{Cost: 1, Enforced: 1}
		r.Observe("k", 7, noon, observed(evidence.NewlyDenied), enforced)
		l.write(t, r)
		l.history(t, reader, true)

		key := keysOfPolicy + "slot:" + "29539440"
		if err := client.HSet(t.Context(), key, field, text).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r.Observe("k", 7, noon.Add(10*time.Second), observed(evidence.NewlyDenied), enforced)
			l.write(t, r)
			if _, err := reader.History(t.Context(), noon); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%q = %q: %v, want an error with the key", field, text, err)
			}
			if err := reader.Store(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ticks, err := reader.Ticks(t.Context(), noon.Add(20*time.Second), time.Hour)
		if err != nil || len(ticks) != 2 || ticks[1].Tally[evidence.NewlyDenied] != 2 {
			t.Errorf("%q = %q: ticks %+v, %v, want two", field, text, ticks, err)
		}
		server.Del(key)
		if h := l.history(t, reader, true); len(h.Minutes) != 0 {
			t.Errorf("%q = %q: the slot is deleted, and has %v", field, text, h.Minutes)
		}
	}
}

// Keys of another kind in the place of the ledger's stop no writer.
func TestKeysOfAnotherKind(t *testing.T) {
	for _, what := range []string{"changes", "slot:29539440", "top:newly_denied", "errors:newly_denied"} {
		l, server, client := onMiniredis(t)
		if err := client.Set(t.Context(), keysOfPolicy+what, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		r := evidence.NewRecorder(nil)
		r.Observe("k", 7, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
		l.write(t, r)
		_, err := evidence.NewReader(l, ofPolicy, noon).History(t.Context(), noon)
		if top := strings.Contains(what, "newly"); (err == nil) != top || !top && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}

		server.Del(keysOfPolicy + what)
		r.Observe("k", 7, noon, observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
		l.write(t, r)
		if h := l.history(t, evidence.NewReader(l, ofPolicy, noon), true); h.Total().Comparisons() == 0 {
			t.Errorf("%s: nothing counts after it is deleted", what)
		}
	}
}

// Everything in Redis has a time to live, and what has not changed is not read again.
func TestKeysLiveForATime(t *testing.T) {
	l, server, client := onMiniredis(t)
	r, reader := evidence.NewRecorder(nil), evidence.NewReader(l, ofPolicy, noon)
	for range 3 * 60 {
		r.Observe("k", 7, l.now(), observed(evidence.NewlyDenied), &evidence.Setting{Cost: 1})
		b := r.Batch(l.now(), true)
		if _, err := l.Add(t.Context(), ofPolicy, b); err != nil {
			t.Fatal(err)
		}
		r.Written(b)
		l.history(t, reader, true)
		l.pass(time.Minute)
	}
	for what, most := range map[string]time.Duration{
		"writer:": 3 * time.Hour, "changes": 6 * time.Hour, "slot:": 4 * time.Hour, "hour:": 40 * 24 * time.Hour,
		"top:": 40 * 24 * time.Hour, "keys:": 40 * 24 * time.Hour,
	} {
		n := 0
		for _, key := range server.Keys() {
			if strings.HasPrefix(key, keysOfPolicy+what) {
				n++
				if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > most {
					t.Errorf("%s lives for %s, want up to %s", key, ttl, most)
				}
			}
		}
		if n == 0 {
			t.Errorf("no key begins with %s: %v", what, server.Keys()[:5])
		}
	}
}
