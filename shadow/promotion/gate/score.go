package gate

import "math"

// enough is the score at which evidence is sound: at a true ratio at or over the
// threshold it is ever reached with a probability of at most 1/20 (Ville).
const enough = 20

// bets are the shares of the score that are staked on each block. Their mean is a
// score that does well whatever the true ratio is.
var bets = [...]float64{0.2, 0.5, 0.9}

// cap of a block's ratio: no block counts for more than five times the
// threshold, and a cap of 1 or more would never be reached.
func capOf(p0 float64) float64 { return math.Min(5*p0, (1+p0)/2) }

// Score is the evidence that the mean of block ratios x stays below p0: the mean
// over the bets g of the product of 1 - g*(min(x,b)-p0)/(b-p0), b the cap. It is
// a test martingale (Waudby-Smith and Ramdas, "Estimating means of bounded random
// variables by betting"): it may be looked at any time, and depends on no order.
func Score(x []float64, p0 float64) float64 {
	w := staked()
	for _, v := range x {
		w.add(v, p0)
	}
	return w.score()
}

// wealth is what each bet has come to: a score that more blocks can be added to.
type wealth [len(bets)]float64

func staked() wealth { return wealth{1, 1, 1} }

// add bets on one more block.
func (w *wealth) add(x, p0 float64) {
	b := capOf(p0)
	excess := (math.Min(x, b) - p0) / (b - p0)
	for i, g := range bets {
		w[i] = math.Min(w[i]*(1-g*excess), math.MaxFloat64/4)
	}
}

func (w wealth) score() float64 { return (w[0] + w[1] + w[2]) / float64(len(bets)) }

// UpperBound is the least threshold that the blocks would be evidence for,
// 1 if there is none below it.
func UpperBound(x []float64) float64 {
	low, high := 0.0, 1.0
	if Score(x, math.Nextafter(1, 0)) < enough {
		return 1
	}
	for range 60 {
		if middle := (low + high) / 2; Score(x, middle) < enough {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
