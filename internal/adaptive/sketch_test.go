package adaptive

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// anyDuration draws durations of every order of magnitude that a sketch tells apart.
func anyDuration(t *rapid.T) time.Duration {
	most := rapid.SampledFrom([]int64{2e6, 2e8, 2e9, 130e9}).Draw(t, "most")
	return time.Duration(rapid.Int64Range(1.024e6, most).Draw(t, "duration"))
}

// The 99th percentile of joined sketches is that of all requests, and is never read as shorter, nor as longer by more than an
// eighth.
func TestP99OfJoinedSketches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []time.Duration
		var fleet Sketch
		for range rapid.IntRange(1, 5).Draw(t, "instances") {
			var c Counter
			for range rapid.IntRange(0, 200).Draw(t, "requests") {
				d := anyDuration(t)
				c.Add(d, false)
				all = append(all, d)
			}
			s := c.Read()
			fleet.Add(&s)
		}

		if fleet.Requests() != int64(len(all)) {
			t.Fatalf("%d requests, want %d", fleet.Requests(), len(all))
		}
		if len(all) == 0 {
			return
		}
		slices.Sort(all)
		exact := all[len(all)-len(all)/100-1]
		if got := fleet.P99(); got < exact.Truncate(time.Microsecond) || got > exact+exact/8+time.Microsecond {
			t.Errorf("the 99th percentile is %s, exactly it is %s", got, exact)
		}
	})
}

// What was served between two readings is their difference.
func TestSinceIsTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, later Counter
		for range rapid.IntRange(0, 50).Draw(t, "earlier") {
			all.Add(anyDuration(t), rapid.Bool().Draw(t, "failed"))
		}
		earlier := all.Read()
		for range rapid.IntRange(0, 50).Draw(t, "later") {
			d, failed := anyDuration(t), rapid.Bool().Draw(t, "failed")
			all.Add(d, failed)
			later.Add(d, failed)
		}

		whole := all.Read()
		if whole.Since(&earlier) != later.Read() {
			t.Error("the difference has other requests than the later ones")
		}
	})
}

// A duration that no request should have has a place, too.
func TestDurationsOutOfRange(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		-time.Second:                  1024 * time.Microsecond,
		0:                             1024 * time.Microsecond,
		1023 * time.Microsecond:       1024 * time.Microsecond,
		1<<27*time.Microsecond - 1000: 1 << 27 * time.Microsecond,
		1 << 27 * time.Microsecond:    1 << 27 * time.Microsecond,
		1<<63 - 1:                     1 << 27 * time.Microsecond,
	} {
		var c Counter
		c.Add(d, false)
		s := c.Read()
		if got := s.P99(); got != want {
			t.Errorf("%s is read as %s, want %s", d, got, want)
		}
	}
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	var c Counter
	if n := testing.AllocsPerRun(100, func() { c.Add(time.Second, true) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
