package limitertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// RecordKeepsMembers charges a group whose members change with each charge, of more members than a side keeps the states of. It
// holds the pair against the model, which keeps the members that were charged last.
//
// It finds a pair that drops a member too soon: a client that a condition leaves out of one limit for a while would find
// that limit unused again.
func RecordKeepsMembers(t *testing.T, pair algorithms.Pair) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	model := NewModel()

	// More names than a record has room for, in any order and number: some must be dropped, and the model says which.
	for i := range 500 {
		g := &algorithms.Group{Charge: algorithms.GroupCharge(i % 2)}
		for _, n := range rng.Perm(algorithms.MaxMembers + 3)[:1+rng.IntN(3)] {
			g.Members = append(g.Members, algorithms.Member{Name: fmt.Sprint("m", n), Algorithm: algorithms.GCRA{},
				Limit: algorithms.Limit{Requests: 1000, Window: time.Hour}})
		}

		c := algorithms.Charge{Policy: "members", Key: "k", Cost: rng.Int64N(3), At: time.UnixMicro(base),
			Sides: [2]algorithms.Side{{ID: "a", Algorithm: g}, {ID: "b", Algorithm: g}}}

		// The clock stands still, so nothing comes back, and a member that was dropped shows in its rest.
		var into [1][2]algorithms.Observation
		if err := pair.Evaluate(context.Background(), []algorithms.Charge{c}, into[:]); err != nil {
			t.Fatal(err)
		}
		for r, want := range model.Evaluate(c) {
			if !same(want, into[0][r]) {
				t.Fatalf("charge %d, %s\n  want %s\n  got  %s", i, describe(c), describeObservation(want), describeObservation(into[0][r]))
			}
		}
	}
}
