package algorithms_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Debts of a share, the converted limit of a cause and RateLimit-Policy take Requests per Window
// for the rate of every algorithm.
func TestEveryAlgorithmAdmitsItsLimitInTheLongRun(t *testing.T) {
	const windows = 100
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 50, Window: time.Minute}
		if burstRuleOf(a) != algorithms.BurstRefused {
			limit.Burst = 7
		}

		// A counter may keep one unit of each window back, and a window that has begun before or a bucket has its
		// capacity besides.
		least, most := windows*(limit.Requests-1), windows*limit.Requests+limit.Capacity()
		for _, begin := range []time.Duration{0, 20 * time.Second, time.Minute - time.Microsecond} {
			if got := saturated(t, a, limit, begin, windows); got < least || got > most {
				t.Errorf("%s with %s, asked all the time from %s on, admits %d in %d windows, want %d to %d: in the long run an "+
					"algorithm admits Requests per Window, on which timeToPay (internal/engine/debts.go), lower (internal/evidence/cause.go) "+
					"and RateLimit-Policy rely", a.Name(), limit, begin, got, windows, least, most)
			}
		}
	}
}

// saturated returns how much an algorithm admits within some windows if a key asks again at each instant at which it may.
func saturated(t *testing.T, a algorithms.Algorithm, l algorithms.Limit, begin time.Duration, windows int64) (admitted int64) {
	t.Helper()
	var s algorithms.State
	end := begin + time.Duration(windows)*l.Window
	for at := begin; at < end; {
		next, d, err := a.Step(s, &l, 1, at.Microseconds())
		if err != nil || !d.Allowed && d.RetryAfter <= 0 {
			t.Fatalf("%s with %s at %s: %+v, error %v", a.Name(), l, at, d, err)
		}

		s = next
		if d.Allowed {
			admitted++
		} else {
			at += d.RetryAfter
		}
	}
	return admitted
}
