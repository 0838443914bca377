package limitertest

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// RecordKeepsTwoParts checks which sides' states a key keeps when more than two
// sides take turns: those charged last, and of others the one that was enforced.
// A side whose state is gone starts afresh.
//
// It finds a pair that drops a side too soon. A candidate that is left out while the
// authoritative runs alone, and then returns, must still know what clients have spent.
func RecordKeepsTwoParts(t *testing.T, pair algorithms.Pair) {
	a, b, c := side("a"), side("b"), side("c")
	refused := a
	refused.Limit.Window = 0

	// Each turn charges up to two sides; the first one is enforced.
	tests := []struct {
		name  string
		turns [][2]algorithms.Side
		kept  [3]bool // a, b, c
	}{
		{"one alone keeps the other", [][2]algorithms.Side{{a, b}, {a}}, [3]bool{true, true, false}},
		{"the other alone keeps the one", [][2]algorithms.Side{{a, b}, {{}, b}}, [3]bool{true, true, false}},
		{"a third alone keeps the enforced", [][2]algorithms.Side{{a, b}, {c}}, [3]bool{true, false, true}},
		{"two new ones keep none", [][2]algorithms.Side{{a}, {b, c}}, [3]bool{false, true, true}},
		{"one new beside one old", [][2]algorithms.Side{{a, b}, {c, b}}, [3]bool{false, true, true}},
		{"a refused one keeps its place", [][2]algorithms.Side{{a, b}, {b, refused}, {c, refused}}, [3]bool{false, true, true}},
		{"roles change", [][2]algorithms.Side{{a, b}, {b, a}, {c}}, [3]bool{false, true, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := time.UnixMicro(base)

			evaluate := func(cost int64, sides [2]algorithms.Side) [2]algorithms.Observation {
				check := algorithms.Check{Policy: "record", Key: tt.name, Cost: cost, At: at, Sides: sides}
				var into [1][2]algorithms.Observation
				if err := pair.Evaluate(context.Background(), []algorithms.Check{check}, into[:]); err != nil {
					t.Fatal(err)
				}
				return into[0]
			}

			// All turns are at one instant, so no state is gone because time has passed.
			for _, sides := range tt.turns {
				evaluate(1, sides)
			}

			// A peek of each side alone shows whether it still owes what it has spent.
			for i, side := range []algorithms.Side{a, b, c} {
				o := evaluate(0, [2]algorithms.Side{side})[0]
				if kept := o.Decision.Remaining < side.Limit.Requests; o.Err != nil || kept != tt.kept[i] {
					t.Errorf("side %s: kept %t (%v), want %t", side.ID, kept, o.Err, tt.kept[i])
				}
			}
		})
	}
}

// side returns a side of that id, whose state shows for an hour that it was charged.
func side(id string) algorithms.Side {
	return algorithms.Side{ID: id, Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 10, Window: time.Hour}}
}
