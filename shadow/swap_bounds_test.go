package shadow_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// admission is a check that was admitted, and the side that was enforced.
type admission struct {
	at   time.Time
	cost int64
	by   algorithms.Role
}

// most is the largest cost that a side alone admits at instants at most span apart.
func most(s algorithms.Side, span time.Duration) int64 {
	return limitertest.UpperBound(s.Algorithm.Name(), s.Limit, span)
}

// stretch is the cost that one side admitted in an interval while it was enforced.
type stretch struct {
	first, last time.Time
	cost        int64
}

func (s *stretch) add(a admission) {
	if s.cost == 0 {
		s.first = a.at
	}
	s.last = a.at
	s.cost += a.cost
}

// Over swaps no interval admits more than each side's bound for the stretch in which that
// side was enforced: whatever the traffic, and however often the stage moves.
func TestOverSwapsEachSideKeepsItsBound(t *testing.T) {
	everyPair(t, func(t *testing.T, rng *rand.Rand, from, to algorithms.Algorithm) {
		s := newSwapper(t, sidesOf(from, to, 5), shadow.Config{})
		admitted := map[string][]admission{}
		s.drive(rng, 400, func(_ int, user string, cost int64, d shadow.Decision) {
			if d.Allowed && cost > 0 {
				admitted[user] = append(admitted[user], admission{s.now, cost, s.enforced(user)})
			}
		})

		mixed := 0
		for _, list := range admitted {
			for i := range list {
				var of [2]stretch
				for _, a := range list[i:] {
					of[a.by].add(a)
					for role, o := range of {
						if bound := most(s.sides[role], o.last.Sub(o.first)); o.cost > bound {
							t.Fatalf("the %s, enforced from %s to %s, admits %d, want at most %d",
								algorithms.Role(role), o.first, o.last, o.cost, bound)
						}
					}
				}
				if of[0].cost > 0 && of[1].cost > 0 {
					mixed++
				}
			}
		}

		if mixed < 50 {
			t.Errorf("%d intervals hold admissions by both sides: too few to show anything", mixed)
		}
	})
}

// saturate sends more than both sides admit, in steps of a twentieth of the window,
// and moves the stage now and then. It returns what each step admitted.
func (s *swapper) saturate(rng *rand.Rand, steps int) []int64 {
	s.now = s.now.Add(microseconds(rng, swapWindow))
	admitted := make([]int64, steps)
	for i := range admitted {
		s.now = s.now.Add(swapWindow / stepsPerWindow)
		if rng.IntN(stepsPerWindow/2) == 0 {
			s.swap()
		}

		for either := true; either && admitted[i] < 1000; { // more than any limit here
			d := s.decide("a", 1)
			if d.Allowed {
				admitted[i]++
			}
			either = d.Allowed || d.Unenforced().Decision.Allowed
		}
	}
	return admitted
}

const stepsPerWindow = 20

// swap enforces the other side for all keys.
func (s *swapper) swap() {
	s.t.Helper()
	if s.state.Stage == stages.Promoted {
		s.move(0)
		s.move(0) // resumed, and ready to be promoted again
	} else {
		s.move(100)
	}
}

// A key that always sends more than both sides admit gets, in a window's time around
// a swap, no more than the side of the larger bound could admit alone; from two
// windows after its first request, and with bursts as large as the limit.
func TestSaturatedSwapKeepsTheLargerBound(t *testing.T) {
	everyPair(t, func(t *testing.T, rng *rand.Rand, from, to algorithms.Algorithm) {
		s := newSwapper(t, sidesOf(from, to, 10), shadow.Config{})
		just := swapWindow - time.Microsecond // the longest span in an interval open at one end
		bound := max(most(s.sides[0], just), most(s.sides[1], just))

		admitted := s.saturate(rng, 15*stepsPerWindow)
		for first := 2 * stepsPerWindow; first+stepsPerWindow <= len(admitted); first++ {
			sum := int64(0)
			for _, n := range admitted[first : first+stepsPerWindow] {
				sum += n
			}
			if sum > bound {
				t.Fatalf("a window's time from step %d admits %d, want at most %d: %d", first, sum, bound, admitted)
			}
		}
	})
}

// burst is n checks of one cost at an instant after swapStart, and how many of them must be
// admitted. With swap the candidate is enforced before them.
type burst struct {
	at       time.Duration
	n        int
	cost     int64
	admitted int
	swap     bool
}

// drip is a check of 1 each tenth of a window, up to one window's time after from.
func drip(from time.Duration) (list []burst) {
	for i := 1; i < 10; i++ {
		list = append(list, burst{at: from + time.Duration(i)*swapWindow/10, n: 1, cost: 1, admitted: 1})
	}
	return list
}

// A key that sends at the right instants around a swap can get more than either side would
// give it alone. docs/failures.md explains why that is accepted.
func TestOverASwapMoreThanEitherBound(t *testing.T) {
	const edge = time.Microsecond
	saturated := []burst{{at: 0, n: 20, cost: 1, admitted: 10}}
	for range 9 {
		saturated = append(saturated, burst{at: saturated[len(saturated)-1].at + swapWindow/10, n: 20, cost: 1})
	}

	tests := []struct {
		name        string
		sides       [2]algorithms.Side
		bursts      []burst
		since       time.Duration // begin of a window's time
		want, bound int64         // admitted since then, and what the larger bound would be
	}{
		{
			"into windows of another phase, three limits less one", sidesOf(algorithms.FixedWindow{}, algorithms.FixedWindowAnchored{}, 0),
			[]burst{
				{at: 500 * time.Millisecond, n: 1, cost: 1, admitted: 1}, // opens the candidate's window
				{at: swapWindow - edge, n: 20, cost: 1, admitted: 9},
				{at: swapWindow, n: 20, cost: 1, admitted: 10}, // the authoritative's next window
				{at: 1500 * time.Millisecond, n: 20, cost: 1, admitted: 10, swap: true},
			},
			swapWindow - edge, 29, 20,
		},
		{
			"with a cost that the candidate denies, three limits", sidesOf(algorithms.FixedWindowAnchored{}, algorithms.FixedWindow{}, 0),
			[]burst{
				{at: 500 * time.Millisecond, n: 1, cost: 1, admitted: 1}, // opens the authoritative's window
				{at: 1500*time.Millisecond - edge, n: 9, cost: 1, admitted: 9},
				{at: 1500 * time.Millisecond, n: 1, cost: 10, admitted: 1}, // the candidate has counted 9
				{at: 1500 * time.Millisecond, n: 20, cost: 1, admitted: 1, swap: true},
				{at: 2 * swapWindow, n: 20, cost: 1, admitted: 10},
			},
			1500*time.Millisecond - edge, 30, 20,
		},
		{
			"from windows into a bucket", sidesOf(algorithms.FixedWindow{}, algorithms.TokenBucket{}, 10),
			append([]burst{
				{at: swapWindow - edge, n: 20, cost: 1, admitted: 10},
				{at: swapWindow, n: 20, cost: 1, admitted: 10},
				{at: swapWindow, n: 20, cost: 1, swap: true},
			}, drip(swapWindow-edge)...),
			swapWindow - edge, 29, 20,
		},
		{
			"saturated, from a log into a bucket of a small burst", sidesOf(algorithms.SlidingWindowLog{}, algorithms.GCRA{}, 5),
			append(append(saturated,
				burst{at: swapWindow, n: 20, cost: 1, admitted: 10},
				burst{at: swapWindow, n: 20, cost: 1, swap: true}), drip(swapWindow)...),
			swapWindow, 19, 14,
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSwapper(t, tt.sides, shadow.Config{})
			just := swapWindow - time.Microsecond
			if bound := max(most(tt.sides[0], just), most(tt.sides[1], just)); bound != tt.bound {
				t.Errorf("the larger bound is %d, want %d", bound, tt.bound)
			}
			if got := s.send(tt.bursts, tt.since); got != tt.want {
				t.Errorf("a window's time admits %d, want %d", got, tt.want)
			}
		})
	}
}

// send returns what the bursts since an instant, less than a window before their end,
// were admitted.
func (s *swapper) send(bursts []burst, since time.Duration) (sum int64) {
	s.t.Helper()
	for i, b := range bursts {
		s.now = swapStart.Add(b.at)
		if b.swap {
			s.move(100)
		}

		admitted := 0
		for range b.n {
			if s.decide("a", b.cost).Allowed {
				admitted++
			}
		}

		if admitted != b.admitted {
			s.t.Errorf("burst %d, %+v: admitted %d", i, b, admitted)
		}
		if b.at >= since {
			sum += int64(admitted) * b.cost
		}
	}

	if last := bursts[len(bursts)-1].at; last-since >= swapWindow {
		s.t.Errorf("the bursts from %s to %s take a window's time or longer", since, last)
	}
	return sum
}
