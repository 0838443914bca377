package promotion

import (
	"math"
	"slices"
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

// strikes reports whether the block is bad: over the cap, and not one client's.
func (b block) strikes(p0 float64) bool { return b.ratio > capOf(p0) && b.many }

// blocksOf cuts minutes with evaluations, in order, into blocks of one ratio. A
// block closes once it is long enough and has enough in its denominator, which
// idle time does not add to; what is after the last one is still open at now.
func blocksOf(minutes []divergence.Minute, r divergence.Ratio, p0 float64, least time.Duration, since, now int64) (closed []block, openFrom int64) {
	length, denominator := int64(least/time.Minute), leastDenominator(p0)
	open, last := divergence.Minute{Unix: since}, since // last: end of the last minute counted
	closeBefore := func(t int64) {
		part, whole := r.Of(open.Tally)
		if end := max(open.Unix+length, last); whole >= denominator && end <= t {
			closed = append(closed, block{divergence.Span{From: open.Unix, To: end}, float64(part) / float64(whole), whole, open.Keys[r].Many()})
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
	return closed, open.Unix
}

func ratiosOf(blocks []block) []float64 {
	x := make([]float64, len(blocks))
	for i, b := range blocks {
		x[i] = b.ratio
	}
	return x
}

// badSpans returns the spans of bad blocks of all ratios. Blocks that overlap are
// one strike: the same bad hour shows in several ratios.
func badSpans(streams [len(divergence.AllRatios)]stream) []divergence.Span {
	var bad []divergence.Span
	for _, s := range streams {
		for _, b := range s.blocks {
			if b.strikes(s.threshold) {
				bad = append(bad, b.Span)
			}
		}
	}
	slices.SortFunc(bad, func(a, b divergence.Span) int { return int(a.From - b.From) })
	var joined []divergence.Span
	for _, s := range bad {
		if n := len(joined); n > 0 && s.From < joined[n-1].To {
			joined[n-1].To = max(joined[n-1].To, s.To)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}
