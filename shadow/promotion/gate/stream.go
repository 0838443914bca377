package gate

import (
	"fmt"
	"math"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// stream is one ratio over time: its blocks, its totals, and what both say.
type stream struct {
	ratio     divergence.Ratio
	threshold float64
	blocks    []block
	openFrom  int64 // minute in which the open block began

	// disturbed are the minutes that do not count for the candidate; invalid are those and the uncovered ones.
	disturbed, invalid spans
	// Of all the evidence in undisturbed time.
	total                  divergence.Tally
	numerator, denominator int64
	// Of the blocks.
	uncompared int64
	weights    weights
	score      score
	// What counts against the candidate. These blocks are the same where nothing is disturbed.
	against []block
	accused divergence.Tally // of all time that is not marked
	mirror  mirror

	weightsAgainst weights
	busy, minutes  int64 // busy is the sum of their denominators
}

func newStream(cfg Config, r divergence.Ratio, since int64) stream {
	return stream{ratio: r, threshold: cfg.Threshold(r), openFrom: since, score: unscored(), mirror: unmirrored()}
}

// take adds the blocks that have closed next.
func (s *stream) take(blocks []block) {
	for _, b := range blocks {
		s.uncompared += b.uncompared
		s.openFrom = b.To

		b.weight = s.weights.next(b.denominator)
		s.score.add(b.taken, s.threshold, b.weight)
		s.blocks = append(s.blocks, b)
	}
}

// accuse adds the blocks that have closed next, as they count against the candidate.
func (s *stream) accuse(blocks []block) {
	for _, b := range blocks {
		s.busy += b.denominator
		s.minutes += b.To - b.From

		b.weight = s.weightsAgainst.next(b.denominator)
		b.bad = b.isBad(s.threshold, float64(s.busy)/float64(s.minutes)*minutesADay)
		s.mirror.add(b.ratio, s.threshold, b.weight)
		s.against = append(s.against, b)
	}
}

func (s *stream) result() RatioResult {
	g := RatioResult{
		Ratio: s.ratio.Value(s.total), Threshold: s.threshold, Score: s.score.value(), Mirror: s.mirror.alarm(),
	}
	if len(s.blocks) > 0 && g.Ratio != nil {
		lower, upper := s.bounds(*g.Ratio)
		g.LowerBound, g.UpperBound = &lower, &upper
	}
	return g
}

// raw returns the raw ratio. It must have a denominator.
func (s *stream) raw() float64 { return float64(s.numerator) / float64(s.denominator) }

// taken returns the raw ratio with what the blocks could not compare taken as different. It
// must have a denominator.
func (s *stream) taken() float64 {
	return float64(s.numerator+s.uncompared) / float64(s.denominator+s.uncompared)
}

// atOrAbove reports whether the raw ratio is at its threshold or above.
func (s *stream) atOrAbove() bool { return s.denominator > 0 && s.raw() >= s.threshold }

// tooEarly reports whether a raw ratio above its threshold may be chance: it needs a denominator of enoughToTell.
func (s *stream) tooEarly() bool { return s.denominator < s.enoughToTell() }

// enoughToTell is the denominator at which a ratio above its threshold is no accident of a few requests.
func (s *stream) enoughToTell() int64 { return 2 * leastDenominator(s.threshold) }

// from words the requests that the shown ratio is of, or why they are too few to tell.
func (s *stream) from(requests int64) string {
	if s.tooEarly() {
		return fmt.Sprintf(": too early to tell, from %s of the %s needed",
			humanize.Grouped(s.denominator), humanize.Grouped(s.enoughToTell()))
	}
	return fmt.Sprintf(", from %s so far", humanize.Grouped(requests))
}

// certain is the evidence against a mean at which a bound leaves it out: 1/40 for each of the
// two ends makes 95 %.
const certain = 40

// bounds returns the ends of a 95 % confidence sequence around a raw ratio: the means that the
// same blocks are no sound evidence against (Waudby-Smith and Ramdas, section 4). A block whose
// denominator allows no difference by a mean says nothing of it. No bound contradicts the ratio.
func (s *stream) bounds(ratio float64) (lower, upper float64) {
	below := func(p float64) bool {
		v := unscored()
		for _, b := range s.blocks {
			if float64(b.denominator)*p >= 1 {
				v.add(b.taken, p, b.weight)
			}
		}
		return v.value() >= certain
	}
	above := func(p float64) bool {
		v := unmirrored()
		for _, b := range s.against {
			v.add(b.ratio, p, b.weight)
		}
		return v.evidence() >= certain
	}

	if ratio > 0 {
		lower = leastWhere(func(p float64) bool { return !above(p) })
	}
	return math.Min(lower, ratio), math.Max(leastWhere(below), ratio)
}

// leastWhere returns the least fraction from which on a condition is true, 1 if there is none
// below. The condition may become true more than once, so it is looked for from above.
func leastWhere(condition func(p float64) bool) float64 {
	const step, least = 0.8, 1e-9
	high := math.Nextafter(1, 0)
	if !condition(high) {
		return 1
	}
	for high > least && condition(step*high) {
		high *= step
	}
	if high <= least {
		return 0
	}

	low := step * high
	for range 40 {
		if middle := (low + high) / 2; condition(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
