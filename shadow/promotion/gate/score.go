package gate

import "math"

// enough is the score at which evidence is sound: if the true ratio is at the threshold or
// above, the score ever reaches it with a probability of at most 1/20 (Ville's inequality).
const enough = 20

// bets are the shares of the score that are staked on each block. A larger bet wins sooner
// with quiet blocks and loses more with bad ones; the mean of three does well whatever the
// true ratio is.
var bets = [...]float64{0.2, 0.5, 0.9}

// capOf returns the cap of a block's ratio: no block counts for more than five times the
// threshold. A cap of 1 or more would never be reached, so it is at most (1+p0)/2.
func capOf(p0 float64) float64 { return math.Min(5*p0, (1+p0)/2) }

// score is the evidence that the mean of block ratios x stays below p0: the mean over the
// bets g of the product of 1 - g*(min(x,b)-p0)/(b-p0), b the cap. It is a test martingale
// (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"): it
// may be looked at any time, and does not depend on the order of the blocks.
func score(x []float64, p0 float64) float64 {
	w := staked()
	for _, v := range x {
		w.add(v, p0)
	}
	return w.score()
}

// wealth is what each bet has grown to: a score that more blocks can be added to.
type wealth [len(bets)]float64

func staked() wealth { return wealth{1, 1, 1} }

// add bets on one more block.
func (w *wealth) add(x, p0 float64) {
	b := capOf(p0)
	excess := (math.Min(x, b) - p0) / (b - p0)

	// The bound keeps the sum of three finite: JSON knows no infinity.
	for i, g := range bets {
		w[i] = math.Min(w[i]*(1-g*excess), math.MaxFloat64/4)
	}
}

func (w wealth) score() float64 { return (w[0] + w[1] + w[2]) / float64(len(bets)) }

// upperBound returns the least threshold that the blocks would be evidence for, 1 if there
// is none below it, as for no blocks at all.
func upperBound(x []float64) float64 {
	if score(x, math.Nextafter(1, 0)) < enough {
		return 1
	}

	// The score rises with the threshold. 60 halvings reach the precision of a float64.
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; score(x, middle) < enough {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
