package integration

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// partBytes are the bytes of one of the two parts of a record: a name and four doubles.
const partBytes = 40

// only leaves one side in the check.
func only(c algorithms.Check, r algorithms.Role) algorithms.Check {
	c.Sides[r.Other()] = algorithms.Side{}
	c.Enforced = r
	return c
}

// TestRecordOfTwoParts holds the size of a record, of one side and of two, and that it is not written unless a side changes.
func TestRecordOfTwoParts(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		both := check("both", 0, algorithms.FixedWindow{}, algorithms.GCRA{})
		one := check("one", 0, algorithms.FixedWindow{})
		for _, c := range []algorithms.Check{both, one} {
			record := pair.RecordKey("p", c.Key)
			look := c
			look.Cost = 0
			if evaluate(t, pair, look); get(t, client, record) != "" {
				t.Errorf("%s: a look has made a record", c.Key)
			}
			want := partBytes
			if c.Sides[1].Present() {
				want = 2 * partBytes
			}
			if evaluate(t, pair, c); len(get(t, client, record)) != want {
				t.Errorf("%s: the record has %d bytes, want %d", c.Key, len(get(t, client, record)), want)
			}
		}

		// A side that denies has begun, too.
		denies := check("denies", 0, algorithms.FixedWindow{}, algorithms.GCRA{})
		denies.Sides[1].Limit.Requests, denies.Sides[1].Limit.Burst = 1, 1
		denies.Cost = 2
		evaluate(t, pair, denies)
		if record := get(t, client, pair.RecordKey("p", "denies")); record[partBytes:partBytes+8] != get(t, client, pair.RecordKey("p", "both"))[partBytes:partBytes+8] {
			t.Errorf("the side that denies has no part in %x", record)
		}
	})

	eachServer(t, func(t *testing.T, s server) {
		_, client := newPair(t, s.addr)
		pair := pairOn(t, client, "shop")
		evaluate(t, pair, check("a key of 17 bytes", -1, algorithms.FixedWindow{}, algorithms.GCRA{}))
		bytes := client.MemoryUsage(t.Context(), pair.RecordKey("p", "a key of 17 bytes"), 0).Val()
		if t.Logf("%d bytes", bytes); bytes == 0 || bytes > 184 { // 16 + 24, and classes of 48 for the name and 96 for the record
			t.Errorf("MEMORY USAGE of a key is %d bytes", bytes)
		}
	})
}

// TestBrokenPartStartsAfresh breaks one part of a record: its side starts afresh, and the other one keeps its state. A
// record of another length is none.
func TestBrokenPartStartsAfresh(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		for n, number := range []float64{math.NaN(), math.Inf(1), -1, 0.5, 1<<53 + 2, 1e300} {
			for part, want := range [][2]int64{{9, 6}, {6, 9}} {
				c := check(fmt.Sprint(n, " in part ", part), 0, algorithms.FixedWindow{}, algorithms.GCRA{})
				evaluate(t, pair, c, c, c)

				record := []byte(get(t, client, pair.RecordKey("p", c.Key)))
				binary.LittleEndian.PutUint64(record[partBytes*part+16:], math.Float64bits(number))
				client.Set(t.Context(), pair.RecordKey("p", c.Key), record, 0)
				o := evaluate(t, pair, c)[0]
				if got := [2]int64{o[0].Decision.Remaining, o[1].Decision.Remaining}; o[0].Err != nil || o[1].Err != nil || got != want {
					t.Errorf("%g in part %d: %+v, want %v remaining", number, part, o, want)
				}
			}
		}

		for _, length := range []int{0, 1, partBytes - 1, partBytes + 1, 2*partBytes - 1, 2*partBytes + 1, 3 * partBytes} {
			c := check(fmt.Sprint(length, " bytes"), 0, algorithms.FixedWindow{}, algorithms.GCRA{})
			evaluate(t, pair, c)
			record := []byte(get(t, client, pair.RecordKey("p", c.Key)))
			client.Set(t.Context(), pair.RecordKey("p", c.Key), slices.Concat(record, record)[:length], 0)
			if o := evaluate(t, pair, c)[0]; o[0].Decision.Remaining != 9 || o[1].Decision.Remaining != 9 {
				t.Errorf("%d bytes: %+v, want 9 remaining", length, o)
			}
		}
	})
}

// TestFirstPartOfANameCounts holds that of two parts with one name the first counts: only garbage has two.
func TestFirstPartOfANameCounts(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		c := check("k", 0, algorithms.FixedWindow{}, algorithms.GCRA{})
		evaluate(t, pair, c, c, c)

		record := []byte(get(t, client, pair.RecordKey("p", "k")))
		copy(record[partBytes:], record[:partBytes])
		binary.LittleEndian.PutUint64(record[partBytes+16:], math.Float64bits(9)) // the units that the second one has spent
		client.Set(t.Context(), pair.RecordKey("p", "k"), record, time.Hour)

		o := evaluate(t, pair, c)[0]
		if got := [2]int64{o[0].Decision.Remaining, o[1].Decision.Remaining}; got != [2]int64{6, 9} {
			t.Errorf("%+v, want the first part's 6 remaining, and the other side afresh", o)
		}
	})
}

// TestLogThatLostEntriesSaysSo holds that a log which lacks entries that count is Lost, and one whose entries have all left
// its window is not.
func TestLogThatLostEntriesSaysSo(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		both := func(key string, at int) algorithms.Check {
			c := check(key, at, algorithms.FixedWindowAnchored{}, algorithms.SlidingWindowLog{})
			c.Sides[0].Limit.Window = time.Hour
			return c
		}

		for at := range 3 {
			evaluate(t, pair, both("lost", at), both("expired", at))
		}
		for _, key := range []string{"lost", "expired"} {
			if err := client.Del(t.Context(), pair.LogKey("p", key, "tomorrow")).Err(); err != nil {
				t.Fatal(err)
			}
		}

		if o := evaluate(t, pair, both("lost", 3))[0]; !o[1].Lost || o[0].Lost {
			t.Errorf("after the log was lost: %+v, want that it says so", o)
		}
		if o := evaluate(t, pair, both("expired", 100))[0]; o[1].Lost || o[1].Decision.Remaining != 9 {
			t.Errorf("after the log had expired: %+v, want nothing lost", o)
		}
	})
}

// TestLogIsCopied holds that a log which begins beside another one takes over its entries, up to 1,000, and that neither
// notices the other afterwards.
func TestLogIsCopied(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		for _, entries := range []int{1, 1000, 1001} {
			c := check(fmt.Sprint(entries), 0, algorithms.SlidingWindowLog{}, algorithms.SlidingWindowLog{})
			c.Sides[0].Limit.Requests, c.Sides[1].Limit.Requests = 2000, 2001
			before := make([]algorithms.Check, entries)
			for i := range before {
				c.At = c.At.Add(time.Duration(i%2) * time.Microsecond)
				before[i] = only(c, algorithms.Authoritative)
			}
			evaluate(t, pair, before...)

			copied := int64(entries)
			if entries > 1000 {
				copied = 0
			}
			o := evaluate(t, pair, c)[0]
			if o[0].Decision.Remaining != 2000-int64(entries)-1 || o[1].Decision.Remaining != 2001-copied-1 || o[0].Lost || o[1].Lost {
				t.Errorf("%d entries: %+v", entries, o)
			}
			if n := client.ZCard(t.Context(), pair.LogKey("p", c.Key, "tomorrow")).Val(); n != copied+1 {
				t.Errorf("of %d entries the copy has %d", entries, n)
			}

			evaluate(t, pair, only(c, algorithms.Candidate))
			o = evaluate(t, pair, c)[0]
			if o[0].Decision.Remaining != 2000-int64(entries)-2 || o[1].Decision.Remaining != 2001-copied-3 || o[0].Lost || o[1].Lost {
				t.Errorf("%d entries, after one of the copy's own: %+v", entries, o)
			}
		}
	})
}

// TestRecordLingers holds that a record and its log live longer than their states, as long as the check says.
func TestRecordLingers(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		c := check("k", -1, algorithms.SlidingWindowLog{})
		c.Linger = 10 * time.Hour
		evaluate(t, pair, c)
		for _, key := range []string{pair.RecordKey("p", "k"), pair.LogKey("p", "k", "today")} {
			if ttl := client.PTTL(t.Context(), key).Val(); ttl < 9*time.Hour || ttl > 11*time.Hour {
				t.Errorf("%s lives %s, want ten hours more than a minute", key, ttl)
			}
		}

		// A record beside one of another store lives no longer than that.
		c = check("deferred", -1, algorithms.GCRA{})
		c.At, c.Deferred, c.Linger = time.Now(), true, time.Minute
		evaluate(t, pair, c)
		if ttl := client.PTTL(t.Context(), pair.RecordKey("p", "deferred")).Val(); ttl < time.Minute || ttl > 3*time.Minute {
			t.Errorf("a record of a deferred check lives %s, want a minute more than its state", ttl)
		}
	})
}
