package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func numbered(key string, at int) algorithms.Charge {
	c := charge(key, at, algorithms.FixedWindow{}, algorithms.GCRA{})
	c.Epoch = 7
	return c
}

// only leaves one side in the charge.
func only(c algorithms.Charge, r algorithms.Role) algorithms.Charge {
	c.Sides[r.Other()] = algorithms.Side{}
	c.Enforced = r
	return c
}

// TestLogThatLostEntriesIsApart holds that a log which lacks entries that count is apart from the other side, and that
// one whose entries have all left its window is not.
func TestLogThatLostEntriesIsApart(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		both := func(key string, at int) algorithms.Charge {
			c := charge(key, at, algorithms.FixedWindowAnchored{}, algorithms.SlidingWindowLog{})
			c.Epoch = 7
			c.Sides[0].Limit.Window = time.Hour
			return c
		}

		for at := range 3 {
			evaluate(t, pair, both("lost", at), both("expired", at))
		}
		for _, key := range []string{"lost", "expired"} {
			if err := client.Del(context.Background(), pair.LogKey("p", key, "tomorrow")).Err(); err != nil {
				t.Fatal(err)
			}
		}

		if o := evaluate(t, pair, both("lost", 3))[0]; o[0].Apart == 0 || o[1].Apart == 0 {
			t.Errorf("after the log was lost: %+v, want it apart", o)
		}
		if o := evaluate(t, pair, both("expired", 100))[0]; o[0].Apart != 0 || o[1].Apart != 0 || o[1].Decision.Remaining != 9 {
			t.Errorf("after the log had expired: %+v, want nothing apart", o)
		}
	})
}

// TestRecordIsKeptForTheOtherStore holds that a record lives as long as the charge says, and its log as long as the log
// needs.
func TestRecordIsKeptForTheOtherStore(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		pair, client := newPair(t, addr)
		ctx := context.Background()
		c := charge("k", -1, algorithms.SlidingWindowLog{})
		c.Epoch = 7
		c.Keep = 10 * time.Hour
		evaluate(t, pair, c)

		if ttl := client.PTTL(ctx, pair.RecordKey("p", "k")).Val(); ttl < 9*time.Hour {
			t.Errorf("the record lives %s, want ten hours", ttl)
		}
		if ttl := client.PTTL(ctx, pair.LogKey("p", "k", "today")).Val(); ttl > 2*time.Hour {
			t.Errorf("the log lives %s, want at most what a log needs", ttl)
		}
	})
}

// TestBrokenPartOfAUsualRecord breaks one part of a record whose length and names are those of a pair: its side starts
// afresh, and the other one keeps its state. Broken numbers make the sides apart.
func TestBrokenPartOfAUsualRecord(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		ctx := context.Background()

		for _, number := range []float64{math.NaN(), 0.5, 1e300} {
			for part, want := range [][2]int64{{9, 6}, {6, 9}, {6, 6}} {
				c := numbered(fmt.Sprint(number, " in part ", part), 0)
				evaluate(t, pair, c, c, c)

				eight := binary.LittleEndian.AppendUint64(nil, math.Float64bits(number))
				at := int64(40*part + 8)
				if err := client.SetRange(ctx, pair.RecordKey("p", c.Key), at, string(bytes.Repeat(eight, 4))).Err(); err != nil {
					t.Fatal(err)
				}

				o := evaluate(t, pair, c)[0]
				if got := [2]int64{o[0].Decision.Remaining, o[1].Decision.Remaining}; o[0].Err != nil || o[1].Err != nil || got != want {
					t.Errorf("%s: %+v, want %v remaining", c.Key, o, want)
				}
				if part == 2 && o[0].Apart == 0 {
					t.Errorf("%s: the sides are not apart", c.Key)
				}
			}
		}
	})
}

// TestFirstPartOfANameCounts holds that of two parts with one name the first counts, with its number: only garbage has two.
func TestFirstPartOfANameCounts(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		ctx := context.Background()
		c := numbered("k", 0)
		evaluate(t, pair, c, c, c)

		record := []byte(client.Get(ctx, pair.RecordKey("p", "k")).Val())
		copy(record[40:], record[:40])
		binary.LittleEndian.PutUint64(record[56:], math.Float64bits(9)) // the units that the second one has spent
		if err := client.Set(ctx, pair.RecordKey("p", "k"), record, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}

		o := evaluate(t, pair, c)[0]
		if got := [2]int64{o[0].Decision.Remaining, o[1].Decision.Remaining}; got != [2]int64{6, 9} || o[0].Apart == 0 {
			t.Errorf("%+v, want the first part's 6 remaining, and the other side apart and afresh", o)
		}
	})
}

// TestNumberOfASideWhoseOtherFails holds that the number of a side stays with its part where the enforced side has
// failed and has no part: the other one is then the first part of the record. miniredis stores nothing after an error.
func TestNumberOfASideWhoseOtherFails(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		pair, client := newPair(t, s.addr)
		c := charge("k", 0, algorithms.SlidingWindowLog{}, algorithms.GCRA{})
		c.Epoch = 7
		if err := client.Set(context.Background(), pair.LogKey("p", "k", "today"), "no set", redis.KeepTTL).Err(); err != nil {
			t.Fatal(err)
		}

		failed := evaluate(t, pair, c)[0]
		if failed[0].Err == nil || failed[1].Err != nil || failed[1].Number == 0 {
			t.Fatalf("a log on a string beside a bucket: %+v", failed)
		}
		alone := evaluate(t, pair, only(c, algorithms.Candidate))[0][1]
		if alone.Number != failed[1].Number.Next() {
			t.Errorf("after the number %x comes %x", failed[1].Number, alone.Number)
		}
	})
}
