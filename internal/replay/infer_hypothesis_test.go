package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A search finds the limiter of a log if it tries one of the same shape: algorithms of one shape decide alike.
func TestEveryShapeIsInferred(t *testing.T) {
	s := &search{fine: time.Millisecond, span: 366 * 24 * time.Hour, costs: true}
	tried := map[algorithms.Shape]bool{}
	for _, h := range slices.Concat(s.windows(), coarseRates()) {
		tried[algorithms.TraitsOf(h.algorithm).Shape] = true
		if !slices.Contains(usual, h.algorithm.Name()) {
			t.Errorf("usual lacks %s, which is tried", h.algorithm.Name())
		}
	}

	for _, a := range algorithms.All {
		if !tried[algorithms.TraitsOf(a).Shape] {
			t.Errorf("no hypothesis has the shape of %s: add one to windows, or beside coarseRates", a.Name())
		}
	}
}
