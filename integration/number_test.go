package integration

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

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
