package engine

import (
	"context"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// panicking is a pair in memory with a fault.
type panicking struct{}

func (panicking) Evaluate(context.Context, []algorithms.Check, [][2]algorithms.Observation) error {
	panic("a fault")
}

// A request that panics leaves the next one none of its checks.
func TestPanicLeavesNoCheck(t *testing.T) {
	st := &Store{pair: panicking{}}
	e := NewOn("test", []*Store{st}, nil)
	s := e.Take()
	s.checks = append(s.checks, algorithms.Check{Key: "k"})
	s.evaluations = append(s.evaluations, evaluation{primaryStore: st})
	s.observed = append(s.observed, Observations{})

	func() {
		defer e.Give(s)
		defer func() { _ = recover() }()
		s.evaluateAt(t.Context(), st)
	}()
	if n := len(s.batch.checks) + len(s.batch.observed) + len(s.batch.indexes); n > 0 {
		t.Errorf("%d elements are left in the batch of a request that panicked", n)
	}
}
