package algorithms_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
)

// TestRecordKeepsTwoParts charges three sides in turn and asks which of them the
// record still holds: those charged last, the enforced one before the other.
func TestRecordKeepsTwoParts(t *testing.T) {
	limitertest.RecordKeepsTwoParts(t, algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}))
}

// TestCounterSurvivesAHugeLimitBefore counts under a limit that makes the next
// one's products overflow.
func TestCounterSurvivesAHugeLimitBefore(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	oracle := limitertest.NewOracle("sliding_window_counter")

	at := time.UnixMicro(1 << 50)
	for i, step := range []struct {
		limit algorithms.Limit
		cost  int64
		after int64
	}{
		{algorithms.Limit{Requests: 1 << 50, Window: time.Microsecond}, 1 << 50, 0},
		{algorithms.Limit{Requests: 3, Window: time.Duration(1<<49) * time.Microsecond}, 1, 1 << 49},
		{algorithms.Limit{Requests: 3, Window: time.Duration(1<<49) * time.Microsecond}, 1, 1<<49 - 1},
	} {
		at = at.Add(time.Duration(step.after) * time.Microsecond)
		side := algorithms.Side{Algorithm: algorithms.SlidingWindowCounter{}, Limit: step.limit}
		c := algorithms.Check{Key: "k", Cost: step.cost, At: at, Sides: [2]algorithms.Side{side}}

		want := oracle.Step(step.limit, step.cost, at.UnixMicro())
		if got := one(t, m, c)[0].Decision; got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
}
