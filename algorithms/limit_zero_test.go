package algorithms_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A client is banned by a limit of 0, and the limit that it had comes back with all that it has spent.
func TestLimitOfZeroDeniesAlways(t *testing.T) {
	for _, a := range algorithms.All {
		before, banned := algorithms.Limit{Requests: 10, Window: time.Hour}, algorithms.Limit{Window: time.Hour}
		if burstRuleOf(a) != algorithms.BurstRefused {
			before.Burst, banned.Burst = 10, 10 // a file with an expression for the limit has one burst for all
		}

		used, _, err := a.Step(algorithms.State{}, &before, 4, 0)
		if err != nil {
			t.Fatal(err)
		}
		after, d, err := a.Step(used, &banned, 1, 1)
		if err != nil || d.Allowed || d.RetryAfter != algorithms.Never || d.Remaining != 0 || d.Capacity != 0 {
			t.Errorf("%s with %s: %+v, error %v: want a denial for ever", a.Name(), banned, d, err)
		}

		if _, d, _ := a.Step(after, &before, 0, 1); d.Remaining != 6 {
			t.Errorf("%s: %d remain after a limit of 0, want the 6 of before", a.Name(), d.Remaining)
		}
	}
}
