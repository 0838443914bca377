package gate

import "math"

// enough is the score at which evidence is sound. If every block, given those before it, is
// expected to have a capped ratio of at least the threshold, the score ever reaches it with a
// probability of at most 1/20 (Ville's inequality). Harm above the cap, and harm that a
// candidate does only later, are not in that promise: see docs/statistics.md.
const enough = 20

// bets are the shares of the score that are staked on each block. A larger bet wins sooner
// with quiet blocks and loses more with bad ones; the mean of three does well whatever the
// true ratio is.
var bets = [...]float64{0.2, 0.5, 0.9}

// capOf returns the cap of a block's ratio: no block counts for more than five times the
// threshold. A cap of 1 or more would never be reached, so it is at most (1+p0)/2.
func capOf(p0 float64) float64 { return math.Min(5*p0, (1+p0)/2) }

// wealth is what each bet has grown to. For a block with the ratio x and the weight w the bet
// g grows by 1 - w*g*(min(x,b)-p0)/(b-p0), b the cap: a test martingale (Waudby-Smith and
// Ramdas, "Estimating means of bounded random variables by betting"), which may be looked at
// any time.
type wealth [len(bets)]float64

// add bets on one more block.
func (w *wealth) add(x, p0, weight float64) {
	b := capOf(p0)
	excess := weight * (min(x, b) - p0) / (b - p0)

	// The bound keeps the sum of three finite: JSON knows no infinity.
	for i, g := range bets {
		w[i] = min(w[i]*(1-g*excess), math.MaxFloat64/4)
	}
}

func (w *wealth) mean() float64 { return (w[0] + w[1] + w[2]) / float64(len(bets)) }

// score is the evidence that a ratio stays below its threshold: the mean of two wealths, one
// of the blocks of even number and one of those of odd number. A burst that lies across two
// blocks would make each of them predict the next; in either half it is one block.
type score struct {
	halves [2]wealth
	blocks int
}

// unscored returns the score before the first block. Each bet begins with one coin, so the score is 1.
func unscored() score { return score{halves: [2]wealth{{1, 1, 1}, {1, 1, 1}}} }

// add bets on the next block.
func (s *score) add(x, p0, weight float64) {
	s.halves[s.blocks%2].add(x, p0, weight)
	s.blocks++
}

// value returns the mean of both halves: the blocks of odd and of even number bet apart.
func (s *score) value() float64 { return (s.halves[0].mean() + s.halves[1].mean()) / 2 }
