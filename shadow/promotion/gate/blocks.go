package gate

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// leastDenominator is what a block needs besides its length: with it no single
// divergence can fill the block.
func leastDenominator(p0 float64) int64 { return int64(math.Ceil(5 / p0)) }

// block is one closed piece of evidence for one ratio.
type block struct {
	divergence.Span
	ratio float64
	whole int64 // its denominator
	many  bool  // its numerator is from at least 3 keys
}

// strikes reports whether the block is bad: over the cap, by more than rounding,
// and not one client's.
func (b block) strikes(p0 float64) bool { return b.ratio > capOf(p0)*(1+1e-12) && b.many }

// blocksOf cuts minutes with evaluations, in order, into blocks of one ratio. A
// block closes once it is long enough and has enough in its denominator, which
// idle time does not add to; what is after the last one is still open at now. At an
// earlier now there are as many as have ended by then.
func blocksOf(minutes []divergence.Minute, r divergence.Ratio, p0 float64, least time.Duration, since, now int64) (closed []block) {
	length, denominator := int64(least/time.Minute), leastDenominator(p0)
	open, last := divergence.Minute{Unix: since}, since // last: end of the last minute counted
	closeBefore := func(t int64) {
		part, whole := r.Of(open.Tally)
		if end := max(open.Unix+length, last); whole >= denominator && end <= t {
			closed = append(closed, block{divergence.Span{From: open.Unix, To: end}, float64(part) / float64(whole), whole, open.Keys[r].AtLeastThree()})
			open = divergence.Minute{Unix: end}
		}
	}
	for i := range minutes {
		closeBefore(minutes[i].Unix)
		open.Join(&minutes[i])
		last = minutes[i].Unix + 1
		closeBefore(last)
	}
	closeBefore(now)
	return closed
}

func ratiosOf(blocks []block) []float64 {
	x := make([]float64, len(blocks))
	for i, b := range blocks {
		x[i] = b.ratio
	}
	return x
}

// badBlock is a block that is bad, for whichever ratio.
type badBlock struct {
	block
	of  divergence.Ratio
	cap float64
}

// badOf returns the bad blocks of all ratios in the order of their ends; of those
// that end together first what hurts clients.
func badOf(streams *[len(divergence.AllRatios)]stream) (bad []badBlock) {
	for _, r := range [...]divergence.Ratio{divergence.OfAllows, divergence.OfDenials, divergence.OfComparisons} {
		s := &streams[r]
		for _, b := range s.blocks {
			if b.strikes(s.threshold) {
				bad = append(bad, badBlock{b, r, capOf(s.threshold)})
			}
		}
	}
	slices.SortStableFunc(bad, func(a, b badBlock) int { return cmp.Compare(a.To, b.To) })
	return bad
}

// strikesOf returns the strikes from a minute on: bad blocks, in the order of their
// ends, that do not overlap. The same bad hour shows in several ratios, but a long
// bad block of one must not hide the short ones of another. Taking them in the
// order of their ends finds as many as there are.
func strikesOf(bad []badBlock, from int64) (strikes []badBlock) {
	first := sort.Search(len(bad), func(i int) bool { return bad[i].To > from })
	end := int64(math.MinInt64)
	for _, b := range bad[first:] {
		if b.From >= end {
			strikes = append(strikes, b)
			end = b.To
		}
	}
	return strikes
}
