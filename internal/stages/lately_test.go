package stages

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// A key that was well for most of an hour is seen by what it has done in the last ten minutes, over the change of the hour, too.
func TestLatelyIsTheLastMinutes(t *testing.T) {
	start := time.Unix(1_800_000_000/3600*3600, 0)
	history := func(counts ...int64) *evidence.History {
		h := &evidence.History{}
		for i, n := range counts {
			k := evidence.ProtectedKey{Key: "acme", Counts: [2]evidence.KeyTally{{}, {evidence.NewlyDenied: n}}}
			h.Hours = append(h.Hours, evidence.Hour{
				Unix: start.Unix()/evidence.SecondsPerHour + int64(i), Protected: evidence.ProtectedKeys{k},
			})
		}
		return h
	}

	var l looks
	for _, step := range []struct {
		minute int
		counts []int64
		want   int64 // requests since the first look that is at most ten minutes old
	}{
		{0, []int64{5}, 0},
		{1, []int64{6}, 1},
		{10, []int64{9}, 4},
		{11, []int64{9}, 3},
		{40, []int64{100}, 0},
		{45, []int64{130}, 30},
		{62, []int64{130, 10}, 0},
		{63, []int64{131, 15}, 6},
		{30, []int64{50}, 0}, // the clock has stepped back
		{31, []int64{40}, 0}, // counts were lost
	} {
		sum := l.lately(history(step.counts...), start.Add(time.Duration(step.minute)*time.Minute))
		if got := sum[0].Total().Allowed(); got != step.want || len(l) > 11 {
			t.Errorf("minute %d: %d requests, want %d; %d looks", step.minute, got, step.want, len(l))
		}
	}
}
