package gate

import (
	"math"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// blockDenominator is what a block needs besides its length: as many as allow one difference.
func blockDenominator(p0 float64) int64 { return int64(math.Ceil(1 / p0)) }

// leastDenominator is what a guard needs. With it one difference is at most a fifth of the threshold.
func leastDenominator(p0 float64) int64 { return int64(math.Ceil(5 / p0)) }

// block is an hour of evidence for one ratio, or as many hours as have blockDenominator requests.
type block struct {
	evidence.Span
	ratio       float64
	denominator int64 // requests
	// taken is the ratio with every evaluation that could not be compared taken for a difference: no answer that was missed can
	// make it larger.
	taken float64
	busy  float64 // the denominator, by cost if the ratio is, in units of a busy block, see busyness
}

// blocksOf cuts minutes with evaluations, in order, into blocks of one ratio. A block
// closes once it is at least an hour long and has blockDenominator requests in its denominator, which
// idle time does not add to. The time after the last block is still open at now. An earlier
// now yields the first of the same blocks.
func blocksOf(minutes []evidence.Minute, r evidence.Ratio, p0 float64, since, now int64) (closed []block) {
	enough := blockDenominator(p0)
	var requests, sum evidence.Tally // the same for a ratio of requests
	from, counted := since, since    // counted is the end of the last minute counted
	var busy busyness

	// A block ends with its hour, or later with the minute that filled it: idle
	// time after that belongs to the next block.
	closeBefore := func(t int64) {
		numerator, denominator := r.Of(sum)
		_, n := r.OfRequests().Of(requests)
		end := max(from+minutesAnHour, counted)
		if n < enough || denominator == 0 || end > t {
			return
		}

		uncompared := max(0, sum.Uncompared())
		closed = append(closed, block{
			Span:        evidence.Span{From: from, To: end},
			ratio:       float64(numerator) / float64(denominator),
			denominator: n,
			taken:       float64(numerator+uncompared) / float64(denominator+uncompared),
			busy:        busy.next(denominator),
		})
		from, requests, sum = end, evidence.Tally{}, evidence.Tally{}
	}

	for i := range minutes {
		closeBefore(minutes[i].Unix)
		requests.Add(minutes[i].Tally)
		sum.Add(tally(r, &minutes[i]))
		counted = minutes[i].Unix + 1
		closeBefore(counted)
	}
	closeBefore(now)
	return closed
}

// endedBy returns the blocks that have ended by an instant.
func endedBy(now int64, blocks []block) []block {
	n := 0
	for n < len(blocks) && blocks[n].To <= now {
		n++
	}
	return blocks[:n]
}

// busyness says how many requests a busy hour has: the 80th percentile of the denominators so far. It is of earlier
// blocks only, so that the score stays a martingale.
type busyness struct {
	sorted []int64
}

// next returns the denominator of the next block in units of a busy block; -1 for the first.
func (b *busyness) next(denominator int64) float64 {
	busy := -1.0
	if n := len(b.sorted); n > 0 {
		busy = float64(denominator) / float64(b.sorted[(n-1)*4/5])
	}
	at, _ := slices.BinarySearch(b.sorted, denominator)
	b.sorted = slices.Insert(b.sorted, at, denominator)
	return busy
}
