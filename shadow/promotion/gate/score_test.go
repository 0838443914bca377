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

func drawWeights(t *rapid.T, n int) []float64 {
	weight := rapid.OneOf(rapid.Just(1.0), rapid.Just(0.0), rapid.Float64Range(0, 1))
	return rapid.SliceOfN(weight, n, n).Draw(t, "weights")
}

func ones(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = 1
	}
	return list
}

func TestScoreIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 60)
		weights := drawWeights(t, len(x))

		want, _ := scoreOf(x, exactly(weights), decimal(p0)).value.Float64()
		if got := gate.Score(x, weights, p0); !near(got, want) {
			t.Errorf("score %g, want %g", got, want)
		}
		alarm, evidence := gate.Mirror(x, weights, p0)
		wantAlarm, wantEvidence := mirrorOf(x, exactly(weights), decimal(p0))
		for _, v := range []struct {
			got  float64
			want oracleScore
		}{{alarm, wantAlarm}, {evidence, wantEvidence}} {
			if want, _ := v.want.value.Float64(); v.want.bounded && !near(v.got, want) {
				t.Errorf("mirror %g, want %g", v.got, want)
			}
		}
	})
}

// Blocks of the same half may come in any order.
func TestScoreDependsOnNoOrderWithinAHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 60)
		y := append([]float64(nil), x...)
		for i := 2; i < len(y); i++ {
			if rapid.Bool().Draw(t, "swap") {
				y[i], y[i-2] = y[i-2], y[i]
			}
		}
		if a, b := gate.Score(x, ones(len(x)), p0), gate.Score(y, ones(len(x)), p0); !near(a, b) {
			t.Errorf("score %g, in another order %g", a, b)
		}
	})
}

// The floor that needs no assumption: no score over 1 if the capped ratios of both halves
// are at the threshold on average.
func TestScoreIsAtMostOneAtTheThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		half := drawRatios(t, p0, 100)

		// As many bad blocks are added as it takes to bring the mean to the threshold.
		b, sum := math.Min(5*p0, (1+p0)/2), 0.0
		for _, v := range half {
			sum += math.Min(v, b)
		}
		for ; sum < p0*float64(len(half)); sum += b {
			half = append(half, 1)
		}
		var x []float64
		for _, v := range half {
			x = append(x, v, v)
		}

		if score := gate.Score(x, ones(len(x)), p0); score > 1+1e-9 {
			t.Errorf("score %g of %d blocks with a mean of %g, p0 %g", score, len(x), sum/float64(len(half)), p0)
		}
	})
}

// The numbers of docs/statistics.md and of the glossary: blocks of one size until the score suffices,
// and where the mirror settles.
func TestBlocksThatAreNeeded(t *testing.T) {
	const many = 3000
	weights := ones(many)
	weights[0] = 0
	for _, tt := range []struct {
		p0, ratio float64
		blocks    int
		mirror    float64
	}{{0.001, 0, 40, 4}, {0.1, 0, 40, 4}, {0.02, 0.01, 74, 9}, {0.02, 0.016, 178, 24}, {0.02, 0.018, 351, 49}, {0.5, 0, 9, 4}} {
		x := make([]float64, many)
		for i := range x {
			x[i] = tt.ratio
		}

		n := 0
		for gate.Score(x[:n], weights[:n], tt.p0) < 20 {
			n++
		}
		mirror, _ := gate.Mirror(x, weights, tt.p0)
		if n != tt.blocks || !near(mirror, tt.mirror) {
			t.Errorf("%g of a threshold of %g: %d blocks and a mirror of %g, want %d and %g", tt.ratio, tt.p0, n, mirror, tt.blocks, tt.mirror)
		}
	}
}

// The weight of a block is its denominator over the 80th percentile of those before it.
func TestWeightsAreTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		denominators := rapid.SliceOfN(rapid.Int64Range(1, 50), 0, 100).Draw(t, "denominators")
		want := weightsOf(denominators)
		for i, got := range gate.Weigh(denominators) {
			if w, _ := want[i].Float64(); !near(got, w) {
				t.Fatalf("block %d of %v: weight %g, want %g", i, denominators, got, w)
			}
		}
	})
}

// The ends of the confidence sequence are where the evidence against a mean reaches 40.
func TestBoundsAreWhereTheEvidenceIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRatios(t, drawThreshold(t), 120)
		if len(x) == 0 {
			return
		}
		weights, many := drawWeights(t, len(x)), make([]int64, len(x))
		for i := range many {
			many[i] = math.MaxInt64
		}

		// A ratio between all bounds contradicts none.
		lower, _ := gate.Bounds(x, weights, many, 1)
		_, upper := gate.Bounds(x, weights, many, 0)
		if above := upper * (1 + 1e-6); above < 1 && gate.Score(x, weights, above) < 40 {
			t.Errorf("upper bound %g, score %g just above", upper, gate.Score(x, weights, above))
		}
		if below := upper * (1 - 1e-6); upper > 1e-9 && gate.Score(x, weights, below) >= 40 {
			t.Errorf("upper bound %g, score %g just below", upper, gate.Score(x, weights, below))
		}
		if _, evidence := gate.Mirror(x, weights, lower*(1-1e-6)); lower > 1e-9 && evidence < 40 {
			t.Errorf("lower bound %g, evidence %g just below", lower, evidence)
		}
		if _, evidence := gate.Mirror(x, weights, lower*(1+1e-6)); lower > 1e-9 && lower < 1 && evidence > 40.001 {
			t.Errorf("lower bound %g, evidence %g just above", lower, evidence)
		}
	})
}

func TestBoundsAtTheEnds(t *testing.T) {
	tests := []struct {
		name        string
		x           []float64
		denominator int64
		ratio       float64
		lower       [2]float64
		upper       [2]float64
	}{
		{"all diverge", ones(100), 1000, 1, [2]float64{0.9, 1}, [2]float64{1, 1}},
		{"quiet for long", make([]float64, 200), 1000, 0, [2]float64{0, 0}, [2]float64{0.001, 0.001001}},
		{"quiet for a while", make([]float64, 20), 1000, 0, [2]float64{0, 0}, [2]float64{0.1, 1}},
		{"one block", []float64{0.5}, 2, 0.5, [2]float64{0, 0.5}, [2]float64{0.5, 1}},
	}

	for _, tt := range tests {
		denominators := make([]int64, len(tt.x))
		for i := range denominators {
			denominators[i] = tt.denominator
		}
		lower, upper := gate.Bounds(tt.x, ones(len(tt.x)), denominators, tt.ratio)
		if lower < tt.lower[0] || lower > tt.lower[1] || upper < tt.upper[0] || upper > tt.upper[1] {
			t.Errorf("%s: %g to %g, want %v to %v", tt.name, lower, upper, tt.lower, tt.upper)
		}
	}
}
