package shadow_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// turning is a user's algorithm that panics wherever it is called once it has turned. It embeds one of this module's, and
// so has its Terms.
type turning struct {
	algorithms.TokenBucket
	turned *atomic.Bool
}

func (a turning) check(method string) {
	if a.turned.Load() {
		panic(method)
	}
}

func (a turning) Name() string {
	a.check("Name")
	return "turning"
}

func (a turning) Traits() algorithms.Traits {
	a.check("Traits")
	return algorithms.TraitsOf(a.TokenBucket)
}

func (a turning) Validate(l algorithms.Limit) error {
	a.check("Validate")
	return a.TokenBucket.Validate(l)
}

func (a turning) Step(s algorithms.State, l *algorithms.Limit, cost, at int64) (algorithms.State, algorithms.Decision, error) {
	a.check("Step")
	return a.TokenBucket.Step(s, l, cost, at)
}

// No method of a user's algorithm ends a request or the process, in the request or behind it.
func TestNoMethodOfAUsersAlgorithmEndsARequest(t *testing.T) {
	limit := algorithms.Limit{Requests: 1000, Window: time.Hour}
	for _, role := range []algorithms.Role{algorithms.Authoritative, algorithms.Candidate} {
		t.Run(role.String(), func(t *testing.T) {
			var turned atomic.Bool
			sides := []shadow.Side{
				{Algorithm: algorithms.TokenBucket{}, Limit: limit},
				{Algorithm: algorithms.TokenBucket{}, Limit: limit, ID: "next"},
			}
			sides[role].Algorithm = turning{turned: &turned}
			sides[role].LimitOf = func(string) (algorithms.Limit, bool) { return limit, true }

			pair, err := shadow.NewPair(shadow.PairConfig{Authoritative: sides[0], Candidate: sides[1]})
			if err == nil {
				err = pair.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer pair.Close(t.Context())
			turned.Store(true)

			// Many requests of one key at a time are asked in another order: the async queue asks Validate then.
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() { requireAllowed(t, pair, 20) })
			}
			all.Wait()
			if err := pair.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// requireAllowed makes requests, and reports those that panic or are denied: the failure of a limiter is no denial.
func requireAllowed(t *testing.T, pair *shadow.Pair, requests int) {
	defer func() {
		if p := recover(); p != nil {
			t.Error(fmt.Errorf("a request panicked: %v", p))
		}
	}()
	for range requests {
		if d := pair.Allow(t.Context(), "key", 1); !d.Allowed {
			t.Errorf("denied: %+v", d)
		}
	}
}
