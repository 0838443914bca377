package algorithms_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A flood of large denied costs cannot overflow a count, and changes no decision by saturating.
func TestCountsSaturate(t *testing.T) {
	limit := algorithms.Limit{Requests: 3, Window: time.Second, Options: algorithms.Options{CountDenied: true}}
	for _, a := range algorithms.All {
		if a.Validate(limit) != nil {
			continue // TestEveryAlgorithmCountsOrRefusesDenied says which
		}

		var s algorithms.State
		var d algorithms.Decision
		for range 5 {
			var err error
			if s, d, err = a.Step(s, &limit, 1<<62, 0); err != nil || d.Allowed || s.Used >= 1<<53 || s.Used < 3 {
				t.Fatalf("%s: %d counted, %+v, error %v", a.Name(), s.Used, d, err)
			}
		}

		// The key denies until the flood is forgotten: the counter until nothing of the window before is left.
		_, d, _ = a.Step(s, &limit, 1, 0)
		want := time.Duration(algorithms.Forgotten(algorithms.TraitsOf(a).Shape, limit, 0)) * time.Microsecond
		if d.RetryAfter != want || d.ResetAfter != want {
			t.Errorf("%s after the flood: %+v, want a wait of %s", a.Name(), d, want)
		}

		// A clock that is set back may join the counts of two windows, each as large as can be. Redis takes more than 2^53 for no state.
		quarter := limit.Window.Microseconds() / 4
		for at := int64(0); at <= 4*quarter; at += quarter {
			s, _, _ = a.Step(s, &limit, 1<<62, at)
		}
		if s, _, _ = a.Step(s, &limit, 0, -4*quarter); s.Used >= 1<<53 || s.Used < 3 {
			t.Errorf("%s: %d counted after a step back, want less than 2^53: countDenied bounds a sum", a.Name(), s.Used)
		}
	}
}

// A client that knocks for ever costs no more memory than one that uses its limit.
func TestDeniedFloodKeepsALogSmall(t *testing.T) {
	limit := algorithms.Limit{Requests: 20, Window: time.Hour, Options: algorithms.Options{CountDenied: true}}
	log := algorithms.SlidingWindowLog{MaxEntries: 20}

	var s algorithms.State
	for i := range int64(10_000) {
		next, d, err := log.Step(s, &limit, 1+i%3, i)
		if err != nil || d.Allowed && i >= limit.Requests {
			t.Fatalf("charge %d: %+v, error %v", i, d, err)
		}
		s = next
	}
	if s.Used > 2*limit.Requests {
		t.Errorf("%d units are kept of a limit of %d", s.Used, limit.Requests)
	}
}
