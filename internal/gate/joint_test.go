package gate_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// rejected is e-BH by its definition: of the k largest, for the largest k with k e / n >= 1 / rate of the k-th.
func rejected(values []float64, rate float64) map[int]bool {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, values[b]-values[a])) })
	most := 0
	for k := 1; k <= len(order); k++ {
		if float64(k)*values[order[k-1]]/float64(len(values)) >= 1/rate {
			most = k
		}
	}
	set := map[int]bool{}
	for _, i := range order[:most] {
		set[i] = true
	}
	return set
}

// Each value that is needed is the least with which e-BH rejects, the others as they are.
func TestJointIsTheDefinition(t *testing.T) {
	const off = 1e-9
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.01, 0.05, 0.1, 0.5}).Draw(t, "rate")
		value := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 4), rapid.Float64Range(0, 3000), rapid.Just(1e6))
		values := rapid.SliceOfN(value, 1, 12).Draw(t, "values")
		for i, needed := range gate.Joint(values, rate) {
			if rejected(values, rate)[i] != (values[i] >= needed) && !near(values[i], needed) {
				t.Fatalf("%d of %v at %g: needs %g, e-BH rejects it: %t", i, values, rate, needed, rejected(values, rate)[i])
			}
			for factor, want := range map[float64]bool{1 - off: false, 1 + off: true} {
				changed := slices.Clone(values)
				changed[i] = needed * factor
				if rejected(changed, rate)[i] != want {
					t.Fatalf("%d of %v at %g: e-BH rejects %g: %t", i, values, rate, changed[i], !want)
				}
			}
		}
	})
}

// The expected share of the true hypotheses among the rejected ones is at most the rate, whatever the e-values have to do with each
// other: counted over all outcomes of drawn distributions, in which those of true hypotheses have an expectation of 1.
func TestJointKeepsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.05, 0.2, 0.5}).Draw(t, "rate")
		n := rapid.IntRange(1, 6).Draw(t, "hypotheses")
		outcomes := rapid.IntRange(1, 12).Draw(t, "outcomes")
		isTrue := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "true")
		weights := rapid.SliceOfN(rapid.Float64Range(0.01, 1), outcomes, outcomes).Draw(t, "weights")
		value := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Float64Range(0, 100))
		total := 0.0
		for _, w := range weights {
			total += w
		}

		drawn := make([][]float64, n)
		for i := range drawn {
			drawn[i] = rapid.SliceOfN(value, outcomes, outcomes).Draw(t, "values")
			expected := 0.0
			for o, v := range drawn[i] {
				expected += v * weights[o] / total
			}
			for o := range drawn[i] {
				if isTrue[i] && expected > 0 {
					drawn[i][o] /= expected
				}
			}
		}
		if share := expectedShare(drawn, weights, isTrue, rate) / total; share > rate+1e-9 {
			t.Errorf("the expected share is %g, the rate %g", share, rate)
		}
	})

	// It is reached where one true hypothesis at a time has all the evidence that its expectation allows.
	const n, rate = 5, 0.1
	drawn, weights, isTrue := make([][]float64, n), make([]float64, n+1), make([]bool, n)
	for i := range n {
		drawn[i] = make([]float64, n+1)
		drawn[i][i], weights[i], isTrue[i] = n/rate, rate/n, true
	}
	weights[n] = 1 - rate
	if share := expectedShare(drawn, weights, isTrue, rate); !near(share, rate) {
		t.Errorf("the expected share is %g, want %g", share, rate)
	}
}

// expectedShare adds up the share of true hypotheses among the rejected ones of each outcome, times its weight.
func expectedShare(drawn [][]float64, weights []float64, isTrue []bool, rate float64) (sum float64) {
	for o, w := range weights {
		values := make([]float64, len(drawn))
		for i := range drawn {
			values[i] = drawn[i][o]
		}
		wrong, all := 0.0, 0.0
		for i, needed := range gate.Joint(values, rate) {
			if values[i] < needed {
				continue
			}
			if all++; isTrue[i] {
				wrong++
			}
		}
		sum += w * wrong / max(all, 1)
	}
	return sum
}

// A candidate is as sure as the least sure of its ratios that are judged.
func TestLeastScore(t *testing.T) {
	var g gate.Result
	if got := g.LeastScore(); got != 0 {
		t.Errorf("%g without a ratio", got)
	}
	g.Divergence = gate.RatioResult{Threshold: 0.02, Score: 900}
	g.NewlyDenied = gate.RatioResult{Threshold: 0.02, Score: 500}
	g.NewlyAllowed.Score = 3 // not judged
	if got := g.LeastScore(); got != 500 {
		t.Errorf("%g, want 500", got)
	}
	g.ByCost = &gate.CostResults{ExtraLoad: gate.RatioResult{Threshold: 0.1, Score: 40}}
	if got := g.LeastScore(); got != 40 {
		t.Errorf("%g, want 40", got)
	}
}
