package algorithms_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// listed returns a check of a list, of one side.
func listed(policy, key string, requests int64) algorithms.Check {
	return algorithms.Check{Policy: policy, Key: key, Cost: 1, At: noon, Together: 1, Sides: [2]algorithms.Side{
		{ID: "a", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: requests, Window: time.Minute}},
	}}
}

func all(t testing.TB, pair algorithms.Pair, checks ...algorithms.Check) [][2]algorithms.Observation {
	t.Helper()
	into := make([][2]algorithms.Observation, len(checks))
	if err := pair.Evaluate(t.Context(), checks, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestDeniedUserCostsTheOrganisationNothing is the case that lists are for.
func TestDeniedUserCostsTheOrganisationNothing(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	for range 25 {
		all(t, m, listed("user", "u", 5), listed("organisation", "o", 20))
	}
	o := all(t, m, listed("user", "other", 5), listed("organisation", "o", 20))
	if o[1][0].Decision.Remaining != 14 {
		t.Errorf("one user's 25 requests, and one of another, leave the organisation %+v, want 14 of 20", o[1][0])
	}
}

// TestPeekBlocksNothing holds that a cost of 0, an absent enforced side, and one that fails deny nothing.
func TestPeekBlocksNothing(t *testing.T) {
	peek, absent, failing := listed("p", "k", 0), listed("p", "k", 0), listed("p", "k", -1)
	peek.Cost, absent.Enforced = 0, algorithms.Candidate
	for _, other := range []algorithms.Check{peek, absent, failing} {
		m := algorithms.NewMemory(algorithms.MemoryConfig{})
		if o := all(t, m, other, listed("organisation", "o", 20)); o[1][0].Blocked || o[1][0].Decision.Remaining != 19 {
			t.Errorf("beside %+v: %+v", other, o[1][0])
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	for name, alter := range map[string]func(*algorithms.Check){
		"deferred":        func(c *algorithms.Check) { c.Deferred = true },
		"another instant": func(c *algorithms.Check) { c.At = noon.Add(1) },
		"one key twice":   func(c *algorithms.Check) { c.Policy, c.Key = "user", "u" },
	} {
		c := listed("organisation", "o", 20)
		alter(&c)
		for _, o := range all(t, m, listed("user", "u", 5), c) {
			if !errors.Is(o[0].Err, algorithms.ErrTogether) {
				t.Errorf("%s: %v", name, o[0].Err)
			}
		}
	}
}

// TestListsInAFullMemory holds that the records of a list do not displace each other, and that a Memory stays bounded and exact
// about the keys that it holds.
func TestListsInAFullMemory(t *testing.T) {
	for seed := range uint64(50) {
		const most = 8
		m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: most})
		rng := rand.New(rand.NewPCG(seed, 0))
		for n := range 200 {
			var checks []algorithms.Check
			for i := range 3 {
				c := listed(fmt.Sprint(i), fmt.Sprint(rng.IntN(6)), 1+rng.Int64N(3))
				c.At = noon.Add(time.Duration(n) * time.Second)
				checks = append(checks, c)
			}
			o := all(t, m, checks...)
			denying := 0
			for i := range o {
				if !o[i][0].Decision.Allowed {
					denying++
				}
			}
			for i := range o {
				others := denying > 1 || denying == 1 && o[i][0].Decision.Allowed
				if o[i][0].Status != algorithms.Judged || o[i][0].Blocked != others {
					t.Fatalf("seed %d, list %d: %+v", seed, n, o)
				}
				if !others && o[i][0].Decision.Allowed && !o[i][0].Degraded {
					look := checks[i]
					look.Cost, look.Together = 0, 0
					if r := one(t, m, look)[0].Decision.Remaining; r != o[i][0].Decision.Remaining {
						t.Fatalf("seed %d, list %d: what check %d was charged is lost: %+v, now %d remain", seed, n, i, o, r)
					}
				}
			}
			if keys := m.Stats().Keys; keys > most+2 {
				t.Fatalf("%d keys are held, the bound is %d", keys, most)
			}
		}
	}
}

// TestListsLockInOneOrder charges keys together in every order at once.
func TestListsLockInOneOrder(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(caller), 0))
			for range 1000 {
				var checks []algorithms.Check
				for _, i := range rng.Perm(10)[:3] {
					checks = append(checks, listed("p", fmt.Sprint(i), 1_000_000))
				}
				all(t, m, checks...)
			}
		})
	}
	group.Wait()

	spent := int64(0)
	for i := range 10 {
		look := listed("p", fmt.Sprint(i), 1_000_000)
		look.Cost = 0
		spent += 1_000_000 - one(t, m, look)[0].Decision.Remaining
	}
	if spent != 8*1000*3 {
		t.Errorf("%d units are charged, want %d", spent, 8*1000*3)
	}
}
