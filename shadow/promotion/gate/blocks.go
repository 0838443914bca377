package gate

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// blockDenominator is what a block needs besides its length: as many as allow one difference.
func blockDenominator(p0 float64) int64 { return int64(math.Ceil(1 / p0)) }

// leastDenominator is what a strike and a guard need. With it one difference is at most a
// fifth of the threshold, so that no single one makes a block bad.
func leastDenominator(p0 float64) int64 { return int64(math.Ceil(5 / p0)) }

// block is one closed piece of evidence for one ratio.
type block struct {
	divergence.Span
	ratio       float64
	denominator int64
	many        bool    // its numerator is from at least 3 keys
	weight      float64 // see weights; only of the blocks of a stream
	bad         bool    // see isBad; only of the blocks of a stream
	// uncompared are the evaluations without a comparison, taken the ratio with all of them
	// as differences: no answer that was missed can make the score's ratio larger. Clients
	// were not harmed by them, so no strike is of them.
	uncompared int64
	taken      float64
}

// strikeShare is the share of a day's allowance that a bad block must use up: a small job of
// every night is within what the threshold allows.
const strikeShare = 0.25

// isBad reports whether the block is bad: above the cap, by more than rounding, not through
// one or two clients alone, and with at least a quarter of the differences that the threshold allows
// in a day with a denominator of aDay.
func (b *block) isBad(p0, aDay float64) bool {
	return b.ratio > capOf(p0)*(1+1e-12) && b.many && b.denominator >= leastDenominator(p0) &&
		b.ratio*float64(b.denominator) >= strikeShare*p0*aDay*(1-1e-12)
}

// blocksOf cuts minutes with evaluations, in order, into blocks of one ratio. A block
// closes once it is at least an hour long and has blockDenominator in its denominator, which
// idle time does not add to. The time after the last block is still open at now. An earlier
// now yields the first of the same blocks.
func blocksOf(minutes []divergence.Minute, r divergence.Ratio, p0 float64, since, now int64) (closed []block) {
	enough := blockDenominator(p0)
	open := divergence.Minute{Unix: since}
	counted := since // end of the last minute counted

	// A block ends with its hour, or later with the minute that filled it: idle
	// time after that belongs to the next block.
	closeBefore := func(t int64) {
		numerator, denominator := r.Of(open.Tally)
		end := max(open.Unix+minutesAnHour, counted)
		if denominator < enough || end > t {
			return
		}

		uncompared := open.Tally.Uncompared()
		closed = append(closed, block{
			Span:        divergence.Span{From: open.Unix, To: end},
			ratio:       float64(numerator) / float64(denominator),
			denominator: denominator,
			many:        open.Sample(r).AtLeastThree(),
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

// badBlock is a block that is bad by one of the ratios.
type badBlock struct {
	block
	of  divergence.Ratio
	cap float64
	// key is the protected one whose loss makes the hour bad; nil where the ratio does.
	key *divergence.ProtectedKey
}

// byHarm are the ratios in the order in which a bad hour is named by them: newly denied hurts
// clients most, and extra load the service.
var byHarm = [len(divergence.AllRatios)]divergence.Ratio{
	divergence.OfAllows, divergence.ExtraLoad, divergence.OfDenials, divergence.OfComparisons,
}

// badOf returns the bad blocks of all ratios in the order of their ends; of several with the
// same end in the order of byHarm.
func badOf(streams *[len(divergence.AllRatios)]stream) (bad []badBlock) {
	for _, r := range byHarm {
		s := &streams[r]
		for _, b := range s.against {
			if b.bad {
				bad = append(bad, badBlock{b, r, capOf(s.threshold), nil})
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
