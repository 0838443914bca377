package algorithms

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Limits of expressions may be of any number: a Memory prepares some of them, and judges by all of them.
func TestPreparedSidesAreBounded(t *testing.T) {
	m := NewMemory(MemoryConfig{})
	into := make([][2]Observation, 1)

	for i := range 2 * mostPrepared {
		limit := Limit{Requests: int64(i + 1), Window: time.Hour}
		c := Check{Policy: "p", Key: fmt.Sprint(i % 7), Cost: 1, Sides: [2]Side{
			{Algorithm: FixedWindow{}, Limit: limit}, {Algorithm: GCRA{}, Limit: limit},
		}}
		if err := m.Evaluate(context.Background(), []Check{c}, into); err != nil {
			t.Fatal(err)
		}

		for r := range into[0] {
			if got := into[0][r].Decision.Capacity; got != limit.Requests {
				t.Fatalf("check %d, %s: judged by a limit of %d, want %d", i, Role(r), got, limit.Requests)
			}
		}
	}
	if n := len(*m.prepared.known.Load()); n != mostPrepared {
		t.Errorf("%d sides are prepared, want %d", n, mostPrepared)
	}
}

// strict is an algorithm of a user's that has the name of another one, and its limit.
type strict struct{ GCRA }

func (strict) Step(s State, l *Limit, _, _ int64) (State, Decision, error) {
	return s, Decision{Capacity: l.Requests, RetryAfter: Never}, nil
}

// An algorithm of a user's is asked even if a limit of the same name is prepared, and a side of another id has a part of its own.
func TestOnlyTheSameSideIsPrepared(t *testing.T) {
	limit := Limit{Requests: 3, Window: time.Hour}
	plain := Side{Algorithm: GCRA{}, Limit: limit}
	burst := plain
	burst.Limit.Burst = 1

	for _, test := range []struct {
		name      string
		side      Side
		allowed   bool // the third check of the key, the first one by this side
		remaining int64
	}{
		{"the same side", plain, true, 0},
		{"another id", Side{ID: "other", Algorithm: GCRA{}, Limit: limit}, true, 2},
		{"another algorithm", Side{Algorithm: FixedWindow{}, Limit: limit}, true, 2},
		{"another burst", burst, false, 0},
		{"an algorithm of a user's", Side{Algorithm: strict{}, Limit: limit}, false, 0},
	} {
		checks := make([]Check, 3)
		for i := range checks {
			checks[i] = Check{Policy: "p", Key: "k", Cost: 1, At: time.Unix(1_700_000_000, 0), Sides: [2]Side{plain}}
		}
		checks[2].Sides[0] = test.side

		into := make([][2]Observation, len(checks))
		if err := NewMemory(MemoryConfig{}).Evaluate(context.Background(), checks, into); err != nil {
			t.Fatal(err)
		}
		if d := into[2][0].Decision; d.Remaining != test.remaining || d.Allowed != test.allowed {
			t.Errorf("%s: allowed %v, %d remain; want %v, %d", test.name, d.Allowed, d.Remaining, test.allowed, test.remaining)
		}
	}
}
