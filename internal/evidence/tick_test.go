package evidence

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestTicksCountWhatTheCandidateDoes(t *testing.T) {
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	failed := algorithms.Failure(algorithms.ErrLimit)
	took := func(d time.Duration) algorithms.Observation {
		return algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}, Took: d}
	}

	tests := []struct {
		name       string
		o          [2]algorithms.Observation
		wantFailed int64
		wantSlow   int64
	}{
		{"both answer", [2]algorithms.Observation{allow, allow}, 0, 0},
		{"the candidate fails", [2]algorithms.Observation{allow, failed}, 1, 0},
		{"both fail", [2]algorithms.Observation{failed, failed}, 0, 0},
		{"its breaker is open", [2]algorithms.Observation{allow, algorithms.Skip(algorithms.BreakerOpen)}, 1, 0},
		{"the client has left", [2]algorithms.Observation{allow, algorithms.Skip(algorithms.OtherReason)}, 0, 0},
		{"slow", [2]algorithms.Observation{took(time.Millisecond), took(101 * time.Millisecond)}, 0, 1},
		{"just not slow", [2]algorithms.Observation{took(time.Millisecond), took(100 * time.Millisecond)}, 0, 0},
		{"both slow", [2]algorithms.Observation{took(time.Second), took(time.Second)}, 0, 0},
	}

	for _, tt := range tests {
		var tick Tick
		tick.count(&tt.o, Compare(&tt.o), false)
		if tick.Failed != tt.wantFailed || tick.Slow != tt.wantSlow {
			t.Errorf("%s: %d failed and %d slow, want %d and %d", tt.name, tick.Failed, tick.Slow, tt.wantFailed, tt.wantSlow)
		}
	}
}

// The ticks and keys that a stripe remembers are bounded, also if the clock runs away or back.
func TestTicksAreBounded(t *testing.T) {
	var s ticking
	for n := range int64(10_000) {
		s.at(n * n % 7919)
		s.lists(uint32(n), n/100, 50)
	}

	if len(s.ticks) > keptTicks || len(s.listed) > 50 {
		t.Errorf("%d ticks and %d keys, want at most %d and 50", len(s.ticks), len(s.listed), keptTicks)
	}

	for i := 1; i < len(s.ticks); i++ {
		if s.ticks[i].Unix <= s.ticks[i-1].Unix {
			t.Fatalf("tick %d comes after %d", s.ticks[i].Unix, s.ticks[i-1].Unix)
		}
	}

	if s.at(-1) != nil {
		t.Error("a full list has made room for a tick that is older than all of it")
	}

	if !s.lists(1, 1000, 50) || s.lists(1, 1000+FreshTicks-1, 50) || !s.lists(1, 1000+FreshTicks, 50) {
		t.Error("a key is not listed once in ten minutes, and again after them")
	}
}
