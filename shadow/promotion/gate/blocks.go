package gate

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// leastDenominator is what a block needs besides its length. With it one difference is at
// most a fifth of the threshold, so that no single one makes a block bad.
func leastDenominator(p0 float64) int64 { return int64(math.Ceil(5 / p0)) }

// block is one closed piece of evidence for one ratio.
type block struct {
	divergence.Span
	ratio       float64
	denominator int64
	many        bool // its numerator is from at least 3 keys
	// uncompared are the evaluations without a comparison, taken the ratio with all of them
	// as differences: no answer that was missed can make the score's ratio larger. Clients
	// were not harmed by them, so no strike is of them.
	uncompared int64
	taken      float64
}

// strikes reports whether the block is bad: above the cap, by more than rounding, and not
// through one or two clients alone.
func (b block) strikes(p0 float64) bool { return b.ratio > capOf(p0)*(1+1e-12) && b.many }

// blocksOf cuts minutes with evaluations, in order, into blocks of one ratio. A block
// closes once it is at least least long and has leastDenominator in its denominator, which
// idle time does not add to. The time after the last block is still open at now. An earlier
// now yields the first of the same blocks.
func blocksOf(
	minutes []divergence.Minute, r divergence.Ratio, p0 float64, least time.Duration, since, now int64,
) (closed []block) {
	length, enough := int64(least/time.Minute), leastDenominator(p0)
	open := divergence.Minute{Unix: since}
	counted := since // end of the last minute counted

	// A block ends with its least length, or later with the minute that filled it: idle
	// time after that belongs to the next block.
	closeBefore := func(t int64) {
		numerator, denominator := r.Of(open.Tally)
		end := max(open.Unix+length, counted)
		if denominator < enough || end > t {
			return
		}

		uncompared := open.Tally.Uncompared()
		closed = append(closed, block{
			Span:        divergence.Span{From: open.Unix, To: end},
			ratio:       float64(numerator) / float64(denominator),
			denominator: denominator,
			many:        open.Keys[r].AtLeastThree(),
			uncompared:  uncompared,
			taken:       float64(numerator+uncompared) / float64(denominator+uncompared),
		})
		open = divergence.Minute{Unix: end}
	}

	for i := range minutes {
		closeBefore(minutes[i].Unix)
		open.Join(&minutes[i])
		counted = minutes[i].Unix + 1
		closeBefore(counted)
	}
	closeBefore(now)
	return closed
}

func takenOf(blocks []block) []float64 {
	x := make([]float64, len(blocks))
	for i, b := range blocks {
		x[i] = b.taken
	}
	return x
}

// badBlock is a block that is bad by one of the ratios.
type badBlock struct {
	block
	of  divergence.Ratio
	cap float64
}

// badOf returns the bad blocks of all ratios in the order of their ends. Of several with the
// same end, newly denied comes first: it hurts clients most.
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

// strikesOf returns the strikes from a minute on: bad blocks, in the order of their ends,
// that do not overlap. The same bad hour shows in several ratios and counts once, but a
// long bad block of one ratio must not hide the short ones of another. Taking them in the
// order of their ends finds as many as there are (interval scheduling).
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
