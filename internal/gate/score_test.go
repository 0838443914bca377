package gate_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/gate"
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

// drawBusy draws how busy blocks are; the first is not known to be.
func drawBusy(t *rapid.T, n int) []float64 {
	busy := rapid.OneOf(rapid.Just(1.0), rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Float64Range(0, 30))
	list := rapid.SliceOfN(busy, n, n).Draw(t, "busy")
	if n > 0 {
		list[0] = -1
	}
	return list
}

func TestScoreIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 60)
		busy := drawBusy(t, len(x))

		score := scoreOf(x, busy, p0)
		wantAlarm, wantMirrored := againstOf(x, busy, p0)
		alarm, mirrored := gate.Against(x, busy, p0)
		for _, v := range []struct {
			name string
			got  float64
			want oracleScore
		}{{"score", gate.Score(x, busy, p0), score}, {"alarm", alarm, wantAlarm}, {"mirrored", mirrored, wantMirrored}} {
			if want, _ := v.want.value.Float64(); v.want.bounded && want < 1e290 && !near(v.got, want) {
				t.Errorf("%s %g, want %g", v.name, v.got, want)
			}
		}
	})
}

// While the ratio of all requests is at the threshold or above no score is over 1, and while it is there or below no mirrored
// score is, as long as a busy hour has as many requests as before. So no pass contradicts the ratio, and no fail.
func TestNoScoreContradictsTheRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p0 := drawThreshold(t)
		x := drawRatios(t, p0, 100)
		busy := rapid.SliceOfN(rapid.Float64Range(0, 30), len(x), len(x)).Draw(t, "busy")
		differing, requests := 0.0, 0.0
		for i := range x {
			differing, requests = differing+x[i]*busy[i], requests+busy[i]
		}
		_, mirrored := gate.Against(x, busy, p0)
		switch score := gate.Score(x, busy, p0); {
		case differing >= p0*requests && score > 1+1e-9:
			t.Errorf("score %g at a ratio of %g, p0 %g", score, differing/requests, p0)
		case differing <= p0*requests && mirrored > 1+1e-9:
			t.Errorf("mirrored score %g at a ratio of %g, p0 %g", mirrored, differing/requests, p0)
		}
	})
}

// How busy a block is, is its denominator over the 80th percentile of those before it.
func TestBusyIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		denominators := rapid.SliceOfN(rapid.Int64Range(1, 50), 0, 100).Draw(t, "denominators")
		want := busyOf(denominators)
		for i, got := range gate.Busy(denominators) {
			if !near(got, want[i]) {
				t.Fatalf("block %d of %v: %g, want %g", i, denominators, got, want[i])
			}
		}
	})
}

// The ends of the range are where a score reaches 40, to three digits.
func TestBoundsAreWhereTheScoresReject(t *testing.T) {
	const digits = 1.01
	rapid.Check(t, func(t *rapid.T) {
		x := drawRatios(t, drawThreshold(t), 120)
		if len(x) == 0 {
			return
		}
		busy := drawBusy(t, len(x))
		lower, upper := gate.Bounds(x, busy)
		if above := upper * digits; above < 1 && gate.Score(x, busy, above) < 40 {
			t.Errorf("upper bound %g, score %g above", upper, gate.Score(x, busy, above))
		}
		if below := upper / digits; upper > 1e-6 && gate.Score(x, busy, below) >= 40 {
			t.Errorf("upper bound %g, score %g below", upper, gate.Score(x, busy, below))
		}
		if _, mirrored := gate.Against(x, busy, lower/digits); lower > 1e-6 && mirrored < 40 {
			t.Errorf("lower bound %g, mirrored %g below", lower, mirrored)
		}
		if _, mirrored := gate.Against(x, busy, lower*digits); lower > 0 && lower*digits < 1 && mirrored >= 40 {
			t.Errorf("lower bound %g, mirrored %g above", lower, mirrored)
		}
	})
}
