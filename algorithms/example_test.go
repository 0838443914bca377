package algorithms_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Two limiters with the same numbers, judged at one instant: the fixed window
// has forgotten what happened a second ago, the sliding one has not.
func Example() {
	limit := algorithms.Limit{Requests: 100, Window: time.Minute}
	check := algorithms.Check{
		Policy: "tenant-writes", Key: "acme", Cost: 100,
		Sides: [2]algorithms.Side{
			{Algorithm: algorithms.FixedWindow{}, Limit: limit},
			{Algorithm: algorithms.SlidingWindowCounter{}, Limit: limit},
		},
		At: time.Date(2026, 1, 2, 12, 0, 59, 0, time.UTC),
	}

	pair := algorithms.NewMemory(algorithms.MemoryConfig{})
	observed := make([][2]algorithms.Observation, 1)
	for range 2 {
		if err := pair.Evaluate(context.Background(), []algorithms.Check{check}, observed); err != nil {
			fmt.Println(err)
		}

		at := check.At.Format(time.TimeOnly)
		for role, o := range observed[0] {
			d := o.Decision
			fmt.Printf("%s %s: allowed %t, retry after %s\n", at, algorithms.Role(role), d.Allowed, d.RetryAfter)
		}

		check.At = check.At.Add(time.Second)
	}

	// Output:
	// 12:00:59 authoritative: allowed true, retry after 0s
	// 12:00:59 candidate: allowed true, retry after 0s
	// 12:01:00 authoritative: allowed true, retry after 0s
	// 12:01:00 candidate: allowed false, retry after 1m0s
}
