package shadow

import (
	"context"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// panicking is a pair in memory with a fault.
type panicking struct{}

func (panicking) Evaluate(context.Context, []algorithms.Charge, [][2]algorithms.Observation) error {
	panic("a fault")
}

// A request that panics leaves the next one none of its charges.
func TestPanicLeavesNoCharge(t *testing.T) {
	st := &store{pair: panicking{}}
	e := newEngine("test", []*store{st}, nil, nil, nil)
	s := e.take()
	s.charges = append(s.charges, algorithms.Charge{Key: "k"})
	s.evaluations = append(s.evaluations, evaluation{primaryStore: st})
	s.observed = append(s.observed, observations{})

	func() {
		defer e.give(s)
		defer func() { _ = recover() }()
		s.evaluateAt(t.Context(), st)
	}()
	if n := len(s.batch.charges) + len(s.batch.observed) + len(s.batch.indexes); n > 0 {
		t.Errorf("%d elements are left in the batch of a request that panicked", n)
	}
}
