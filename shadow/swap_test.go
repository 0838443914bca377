package shadow_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// swapper is a harness whose clock and stage the test moves.
type swapper struct {
	*shadow.Harness
	t     testing.TB
	sides [2]algorithms.Side
	now   time.Time
	state stages.State // as moved last
}

// swapWindow is the window of both limits; swapStart is one of its boundaries.
const swapWindow = time.Second

var swapStart = time.Unix(1_700_000_000, 0)

// sideOf returns a side that admits a number of requests a window; buckets have a burst.
func sideOf(id string, a algorithms.Algorithm, requests, burst int64) algorithms.Side {
	s := algorithms.Side{ID: id, Algorithm: a, Limit: algorithms.Limit{Requests: requests, Window: swapWindow, Burst: burst}}
	if a.Validate(s.Limit) != nil {
		s.Limit.Burst = 0
	}
	return s
}

// sidesOf returns sides of 10 requests a window.
func sidesOf(from, to algorithms.Algorithm, burst int64) [2]algorithms.Side {
	return [2]algorithms.Side{sideOf("from", from, 10, burst), sideOf("to", to, 10, burst)}
}

// everyPair runs a test for every ordered pair of algorithms, with randomness of its
// own.
func everyPair(t *testing.T, test func(t *testing.T, rng *rand.Rand, from, to algorithms.Algorithm)) {
	for i, from := range algorithms.All {
		for j, to := range algorithms.All {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			t.Run(from.Name()+" to "+to.Name(), func(t *testing.T) { test(t, rng, from, to) })
		}
	}
}

// swapFile is a policy file of the sides, whose key is the user and cost the size.
func swapFile(sides [2]algorithms.Side) string {
	text := "version: 1\nname: " + name + "\npolicies:\n" +
		"  - name: " + policy + "\n    key: request.user\n    cost: request.size\n"

	for role, s := range sides {
		text += fmt.Sprintf("    %s: { id: %s, algorithm: %s, limit: %d, window: %s",
			algorithms.Role(role), s.ID, s.Algorithm.Name(), s.Limit.Requests, algorithms.FormatWindow(s.Limit.Window))
		if s.Limit.Burst > 0 {
			text += fmt.Sprintf(", burst: %d", s.Limit.Burst)
		}
		text += " }\n"
	}
	return text
}

func newSwapper(t testing.TB, sides [2]algorithms.Side, cfg shadow.Config) *swapper {
	s := &swapper{t: t, sides: sides, now: swapStart}
	if cfg.Clock == nil {
		cfg.Clock = func() time.Time { return s.now }
	}
	s.Harness = open(t, swapFile(sides), cfg)
	s.state.Stage = stages.Shadow
	return s
}

// decide judges a check of a user at the swapper's instant.
func (s *swapper) decide(user string, cost int64) shadow.Decision {
	return s.Decide(s.t.Context(), &policies.Request{User: user, Size: cost})
}

// move enforces the candidate for a percentage of the keys: a canary, or promoted with 100.
// With 0 the policy is rolled back, or resumed if it is rolled back already.
func (s *swapper) move(percent float64) {
	s.t.Helper()
	ctx, store, order := s.t.Context(), inside.Stages(s), stages.Order{Actor: "test", Reason: "test"}
	var err error
	switch {
	case percent == 0 && s.state.Stage == stages.RolledBack:
		s.state, err = stages.Resume(ctx, store, policy, order)
	case percent == 0:
		s.state, err = stages.Rollback(ctx, store, policy, order)
	case percent == 100:
		s.state, err = stages.Advance(ctx, store, policy, stages.Step{Stage: stages.Promoted}, order)
	default:
		s.state, err = stages.Advance(ctx, store, policy, stages.Step{Stage: stages.Canary, Percent: percent}, order)
	}

	if err == nil {
		err = s.Sync(ctx)
	}
	if err != nil {
		s.t.Errorf("move to %g %%: %v", percent, err)
	}
}

// moveOn makes a random move that the state allows.
func (s *swapper) moveOn(rng *rand.Rand) {
	s.t.Helper()
	moves := []float64{0}
	for _, percent := range []float64{30, 70, 100} {
		if percent > s.state.Percent && s.state.Stage != stages.RolledBack {
			moves = append(moves, percent)
		}
	}
	s.move(moves[rng.IntN(len(moves))])
}

// enforced is the side that the stage enforces for a user.
func (s *swapper) enforced(user string) algorithms.Role {
	switch s.state.Stage {
	case stages.Promoted:
		return algorithms.Candidate
	case stages.Canary:
		if evidence.InCanary(evidence.Hash(name, policy, user), s.state.Percent) {
			return algorithms.Candidate
		}
	}
	return algorithms.Authoritative
}

// swapUsers are on both sides of each canary that moveOn makes.
var swapUsers = []string{"a", "b", "c", "d", "e", "f"}

// pause moves the clock: often not at all, otherwise to where something may change.
func (s *swapper) pause(rng *rand.Rand) {
	edge := time.Duration(rng.IntN(3)-1) * time.Microsecond
	switch rng.IntN(60) {
	case 0:
		s.now = s.now.Truncate(swapWindow).Add(swapWindow + edge)
	case 1:
		s.now = s.now.Add(swapWindow + edge)
	case 2, 3, 4:
		s.now = s.now.Add(swapWindow/10 + edge)
	case 5:
		s.now = s.now.Add(microseconds(rng, 2*swapWindow))
	case 6, 7, 8:
		s.now = s.now.Add(microseconds(rng, swapWindow/10))
	}
}

// microseconds draws less than a duration.
func microseconds(rng *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(rng.Int64N(below.Microseconds())) * time.Microsecond
}

// cost draws a cost: often 1, up to more than the limit admits.
func cost(rng *rand.Rand) int64 {
	if rng.IntN(3) > 0 {
		return 1
	}
	return rng.Int64N(12)
}

// drive sends random traffic while stages move at random, and hands over each
// decision.
func (s *swapper) drive(rng *rand.Rand, requests int, each func(i int, user string, cost int64, d shadow.Decision)) {
	for i := range requests {
		if s.pause(rng); rng.IntN(16) == 0 {
			s.moveOn(rng)
		}
		user, units := swapUsers[rng.IntN(len(swapUsers))], cost(rng)
		each(i, user, units, s.decide(user, units))
	}
}

// While stages move in mid-traffic, the decision for a key is the one that the enforced side
// would have made alone with this traffic from the beginning. The other side counts in the
// same way. So a stage changes which side is enforced and nothing else, both sides are warm
// whenever they are swapped, and no key gets a second budget.
func TestSwapsOnlyChangeTheEnforcedSide(t *testing.T) {
	for _, percent := range []float64{30, 70} {
		inside := func(user string) bool {
			return evidence.InCanary(evidence.Hash(name, policy, user), percent)
		}
		outside := func(user string) bool { return !inside(user) }
		if !slices.ContainsFunc(swapUsers, inside) || !slices.ContainsFunc(swapUsers, outside) {
			t.Fatalf("%v are on one side of a canary of %g %%", swapUsers, percent)
		}
	}

	everyPair(t, func(t *testing.T, rng *rand.Rand, from, to algorithms.Algorithm) {
		s := newSwapper(t, sidesOf(from, to, 5), shadow.Config{})
		alone := map[string][2]*limitertest.Oracle{}
		for _, user := range swapUsers {
			alone[user] = [2]*limitertest.Oracle{limitertest.OracleOf(t, from), limitertest.OracleOf(t, to)}
		}

		var enforced, denied [2]int
		s.drive(rng, 1000, func(i int, user string, cost int64, d shadow.Decision) {
			var want [2]algorithms.Decision
			for role, oracle := range alone[user] {
				want[role] = oracle.Step(s.sides[role].Limit, cost, s.now.UnixMicro())
			}

			by := s.enforced(user)
			request := fmt.Sprintf("request %d, %s for %d in %s", i, user, cost, s.state.Describe())
			if d.Enforced != by || d.Fallback || d.Decision != want[by] {
				t.Fatalf("%s: %+v, want the %s's %+v", request, d, by, want[by])
			}

			other := d.Unenforced()
			if other.Status != algorithms.Judged || other.Decision != want[by.Other()] {
				t.Fatalf("%s: the %s is not enforced and has %+v, alone %+v", request, by.Other(), other, want[by.Other()])
			}

			if enforced[by]++; !d.Allowed {
				denied[by]++
			}
		})

		if min(enforced[0], enforced[1], denied[0], denied[1]) < 20 {
			t.Errorf("enforced %d, denied %d by role: too few to show anything", enforced, denied)
		}
	})
}
