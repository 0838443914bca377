package gate_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// drawRatios draws block ratios about a threshold.
func drawRatios(t *rapid.T, p0 float64, most int) []float64 {
	high := math.Min(1, 8*p0)
	ratio := rapid.OneOf(rapid.Just(0.0), rapid.Just(p0), rapid.Float64Range(0, high), rapid.Just(high))
	return rapid.SliceOfN(ratio, 0, most).Draw(t, "ratios")
}

func drawThreshold(t *rapid.T) float64 {
	usual := rapid.SampledFrom([]float64{0.001, 0.02, 0.5, 0.9})
	return rapid.OneOf(usual, rapid.Float64Range(1e-4, 0.99)).Draw(t, "p0")
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestScoreIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 60)

		want, _ := scoreOf(x, decimal(p0)).value.Float64()
		if got := gate.Score(x, p0); !near(got, want) {
			t.Errorf("score %g, want %g", got, want)
		}
	})
}

func TestScoreDependsOnNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 60)
		y := rapid.Permutation(x).Draw(t, "other order")
		if a, b := gate.Score(x, p0), gate.Score(y, p0); !near(a, b) {
			t.Errorf("score %g, in another order %g", a, b)
		}
	})
}

// The floor that needs no assumption: no score over 1 if the capped ratios are at
// the threshold on average.
func TestScoreIsAtMostOneAtTheThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 200)

		// As many bad blocks are added as it takes to bring the mean to the threshold.
		b, sum := math.Min(5*p0, (1+p0)/2), 0.0
		for _, v := range x {
			sum += math.Min(v, b)
		}
		for ; sum < p0*float64(len(x)); sum += b {
			x = append(x, 1)
		}

		if score := gate.Score(x, p0); score > 1+1e-9 {
			t.Errorf("score %g of %d blocks with a mean of %g, p0 %g", score, len(x), sum/float64(len(x)), p0)
		}
	})
}

func TestUpperBoundIsTheLeastThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRatios(t, drawThreshold(t), 120)
		bound := gate.UpperBound(x)

		if above := bound * (1 + 1e-6); above < 1 && gate.Score(x, above) < 20 {
			t.Errorf("bound %g, score %g just above", bound, gate.Score(x, above))
		}
		// Below 1e-9 it is as good as 0: quiet blocks speak for any threshold.
		if below := bound * (1 - 1e-6); bound > 1e-9 && gate.Score(x, below) >= 20 {
			t.Errorf("bound %g, score %g just below", bound, gate.Score(x, below))
		}
	})
}

func TestUpperBoundAtTheEnds(t *testing.T) {
	tests := []struct {
		name string
		x    []float64
		low  float64
		high float64
	}{
		{"nothing", nil, 1, 1},
		{"all diverge", []float64{1, 1, 1, 1}, 1, 1},
		{"quiet for long", make([]float64, 100), 0, 1e-9},
		{"quiet for 19 blocks", make([]float64, 19), 1e-9, 0.2},
	}

	for _, tt := range tests {
		if got := gate.UpperBound(tt.x); got < tt.low || got > tt.high {
			t.Errorf("%s: %g, want %g to %g", tt.name, got, tt.low, tt.high)
		}
	}
}
