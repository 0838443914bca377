package lua

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A flood of large denied costs overflows no count in Redis: a state above 2^53 would be taken for none, and the key would be
// unused. TestCountsSaturate holds the same of the steps in Go, so the answers are compared with theirs.
func TestCountsSaturateInScripts(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { client.Close() })
	pair, err := New(client, Config{Name: "saturation"})
	if err != nil {
		t.Fatal(err)
	}

	seen := map[string]bool{}
	for _, a := range algorithms.All {
		for _, o := range everyOption {
			limit := algorithms.Limit{Requests: 3, Window: max(time.Second, o.Calendar.Longest()), Options: o}
			if a.Validate(limit) != nil {
				limit.Burst = 3
			}
			if !o.CountsDenied() || a.Validate(limit) != nil {
				continue
			}
			side := algorithms.Side{Algorithm: a, Limit: limit}
			name, _ := stepOf(&side)
			seen[name] = true
			t.Run(name, func(t *testing.T) { flood(t, pair, side, name+o.String()) })
		}
	}

	// TestEveryOptionHasAScript says which combination everyOption lacks for a step.
	for name, step := range optional {
		if step.counts && !seen[name] {
			t.Errorf("no side has the step %s: add its options to everyOption (script_test.go)", name)
		}
	}
}

// flood charges a key of a side that counts denied costs, and compares each answer with that of the pair in memory.
func flood(t *testing.T, pair algorithms.Pair, side algorithms.Side, key string) {
	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	judge := func(side algorithms.Side, cost int64, at time.Duration) {
		c := algorithms.Charge{Policy: "p", Key: key, Cost: cost, At: time.UnixMicro(1_700_000_000_000_000).Add(at),
			Sides: [2]algorithms.Side{side}}
		var got, want [1][2]algorithms.Observation
		for pair, into := range map[algorithms.Pair]*[1][2]algorithms.Observation{pair: &got, memory: &want} {
			if err := pair.Evaluate(context.Background(), []algorithms.Charge{c}, into[:]); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := got[0][0], want[0][0]; got.Err != nil || got.Decision != want.Decision {
			t.Fatalf("cost %d at %s under %s: %+v, %v, want %+v: bound a sum of counts as countDenied does, in Lua count_denied",
				cost, at, side.Limit, got.Decision, got.Err, want.Decision)
		}
	}

	// Of two windows each counts as much as can be. A cost of 1 finds whether the counts are still there.
	quarter := side.Limit.Window / 4
	judge(side, 3, 0)
	for i := range 8 {
		for _, cost := range []int64{1 << 62, 1 << 62, 1} {
			judge(side, cost, time.Duration(i)*quarter)
		}
	}

	// A clock that is set back may join them, also where the side has lost its option since. A peek stores the joint count alone.
	plain := side
	plain.Limit.CountDenied = false
	for i, lost := range []algorithms.Side{side, plain} {
		at := -time.Duration(i+1) * 16 * quarter
		judge(lost, 0, at)
		judge(lost, 1, at)
		judge(side, 1<<62, at)
		judge(side, 1<<62, at+4*quarter)
		judge(side, 1<<62, at+4*quarter)
	}
}
