package shadow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// After the wait that a client is told more is there, whatever the algorithm. For a bucket it is the first microsecond at which
// that is so, or the one after it.
func TestMoreAfter(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, a := range algorithms.All {
		traits := algorithms.TraitsOf(a)
		for range 2000 {
			limit := algorithms.Limit{Requests: 1 + draw.Int64N(100), Window: time.Duration(1+draw.Int64N(100)) * time.Second}
			if traits.Burst != algorithms.BurstRefused {
				limit.Burst = 1 + draw.Int64N(50)
			}
			if a.Validate(limit) != nil {
				continue
			}

			var state algorithms.State
			at := int64(1e15) + draw.Int64N(1e9)
			for range 1 + draw.IntN(5) {
				at += draw.Int64N(limit.Window.Microseconds())
				next, judged, err := a.Step(state, &limit, 1+draw.Int64N(limit.Capacity()), at)
				if err != nil {
					t.Fatal(err)
				}
				state = next

				d := Decision{Decision: judged, Limit: limit.Requests, Window: limit.Window, Shape: traits.Shape}
				if !d.Allowed {
					continue // RetryAfter says it
				}
				remaining := func(wait int64) int64 {
					_, later, err := a.Step(state, &limit, 0, at+wait)
					if err != nil {
						t.Fatal(err)
					}
					return later.Remaining
				}
				wait := (d.MoreAfter() + time.Microsecond - 1).Microseconds()
				if remaining(wait) <= d.Remaining {
					t.Fatalf("%s %v: after %d us there are %d, as now", a.Name(), limit, wait, d.Remaining)
				}
				if traits.Shape == algorithms.Bucket && remaining(max(wait-2, 0)) > d.Remaining {
					t.Fatalf("%s %v: more than %d are there before %d us", a.Name(), limit, d.Remaining, wait)
				}
			}
		}
	}
}

// A client that obeys gets what the limit allows: at 60 a minute, one a second and not one a minute.
func TestMoreAfterOfAnEmptyBucket(t *testing.T) {
	bucket := Decision{
		Decision: algorithms.Decision{Allowed: true, Capacity: 60, ResetAfter: time.Minute},
		Limit:    60, Window: time.Minute, Shape: algorithms.Bucket,
	}
	if got := bucket.MoreAfter(); got != time.Second {
		t.Errorf("%s, want 1s", got)
	}

	// The local fallback has a share of the limit, and refills more slowly than the whole.
	bucket.Fallback = true
	if got := bucket.MoreAfter(); got != time.Minute {
		t.Errorf("in a fallback: %s, want 1m0s", got)
	}
}

func TestJoinedDecisions(t *testing.T) {
	allow := func(policy string, remaining int64, delay time.Duration) Decision {
		return Decision{Decision: algorithms.Decision{Allowed: true, Remaining: remaining, Delay: delay}, Policy: policy}
	}

	deny := func(policy string, retry time.Duration) Decision {
		return Decision{Decision: algorithms.Decision{RetryAfter: retry}, Policy: policy}
	}

	tests := []struct {
		name       string
		give       []Decision
		wantPolicy string
		wantDelay  time.Duration
	}{
		{"the least remaining", []Decision{allow("a", 5, 0), allow("b", 3, 0), allow("c", 4, 0)}, "b", 0},
		{"ties in file order", []Decision{allow("a", 3, 0), allow("b", 3, 0)}, "a", 0},
		{"unknown is the most", []Decision{allow("a", -1, 0), allow("b", 1000, 0)}, "b", 0},
		{"a denial counts before all", []Decision{allow("a", 0, 0), deny("b", 1), allow("c", 0, 0)}, "b", 0},
		{"the longest wait", []Decision{deny("a", 1), deny("b", algorithms.Never), deny("c", 2)}, "b", 0},
		{"the longest delay, whoever has it", []Decision{allow("a", 9, 7), allow("b", 3, 5)}, "b", 7},
	}

	for _, tt := range tests {
		d := unlimited()
		for _, other := range tt.give {
			d.join(&other)
		}
		if d.Policy != tt.wantPolicy || d.Delay != tt.wantDelay {
			t.Errorf("%s: %+v, want policy %s with delay %s", tt.name, d, tt.wantPolicy, tt.wantDelay)
		}
	}
}
