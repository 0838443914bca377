package gate

import (
	"fmt"
	"math"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// byHarm are the ratios in the order in which they are named: newly denied hurts clients most, and extra load the service.
var byHarm = [len(evidence.AllRatios)]evidence.Ratio{
	evidence.OfAllows, evidence.AllowsCost, evidence.ExtraLoad, evidence.ExtraLoadCost,
	evidence.OfDenials, evidence.DenialsCost, evidence.OfComparisons,
}

// denominatorWords name the denominators of ratios.
var denominatorWords = [...]string{
	evidence.OfComparisons: "of all comparisons",
	evidence.OfAllows:      "of what the authoritative allows",
	evidence.OfDenials:     "of what the authoritative denies",
	evidence.ExtraLoad:     "more than the authoritative allows",
	evidence.AllowsCost:    "of the cost that the authoritative allows",
	evidence.DenialsCost:   "of the cost that the authoritative denies",
	evidence.ExtraLoadCost: "more than the cost that the authoritative allows",
}

// ratio is one ratio up to an instant: what speaks for the candidate, and what against it.
type ratio struct {
	of        evidence.Ratio
	threshold float64 // 0: shown, and not judged
	// disturbed are the minutes that do not count for the candidate; invalid are those and the uncovered ones.
	disturbed, invalid spans

	total  evidence.Tally // in undisturbed time, of costs if the ratio is
	blocks []block
	score  score

	// The blocks against it are the same where nothing is disturbed.
	against struct {
		total      evidence.Tally // of all time that is not marked
		blocks     []block
		regression regression
		mirrored   mirrored
	}
}

func (s *ratio) judged() bool { return s.threshold > 0 }

// tally returns what the ratio is of in a minute.
func tally(r evidence.Ratio, m *evidence.Minute) evidence.Tally {
	if r.ByCost() {
		return m.Cost()
	}
	return m.Tally
}

// advance takes in the blocks that have ended by now of all that there are.
func (s *ratio) advance(all *ratio, now int64) {
	for _, b := range endedBy(now, all.blocks[len(s.blocks):]) {
		s.score.add(b.taken, s.threshold, b.busy)
		s.blocks = append(s.blocks, b)
	}
	for _, b := range endedBy(now, all.against.blocks[len(s.against.blocks):]) {
		s.against.regression.add(b.ratio, s.threshold, b.busy)
		s.against.mirrored.add(b.ratio, s.threshold, b.busy)
		s.against.blocks = append(s.against.blocks, b)
	}
}

func (s *ratio) result() RatioResult {
	g := RatioResult{Ratio: s.of.Value(s.total), Threshold: s.threshold}
	if s.judged() {
		g.Score, g.Regression = s.score.mean(), s.against.regression.value()
		g.LowerBound, g.UpperBound = s.bounds()
	}
	return g
}

// above reports whether the ratio is at its threshold or above.
func (s *ratio) above() bool {
	v := s.of.Value(s.total)
	return v != nil && *v >= s.threshold
}

// risenSince returns the regression score of a stage that began at a minute. A step that was
// forced although the score was too high begins without it: the operator knew of it.
func (s *ratio) risenSince(minute int64) float64 {
	var r regression
	begun := false
	for _, b := range s.against.blocks {
		if !begun && b.To > minute {
			if begun = true; r.value() >= suspect {
				r = regression{}
			}
		}
		r.add(b.ratio, s.threshold, b.busy)
	}
	if !begun && r.value() >= suspect {
		return 0
	}
	return r.value()
}

// certain is the score against a threshold at which a bound leaves it out: 1/40 for each of the two ends makes 95 %.
const certain = 40

// bounds returns the thresholds that the same scores do not reject; nil without a block. By the scores' promise the ratio of the
// blocks lies between.
func (s *ratio) bounds() (lower, upper *float64) {
	if len(s.blocks) == 0 || len(s.against.blocks) == 0 {
		return nil, nil
	}
	below := least(func(p float64) bool {
		var score score
		for i := range s.blocks {
			// A block with too few requests for one difference says nothing by having none.
			if b := &s.blocks[i]; b.taken > 0 || float64(b.denominator)*p >= 1 {
				score.add(b.taken, p, b.busy)
			}
		}
		return score.mean() >= certain
	})
	above := least(func(p float64) bool {
		var m mirrored
		for i := range s.against.blocks {
			m.add(s.against.blocks[i].ratio, p, s.against.blocks[i].busy)
		}
		return m.mean() < certain
	})
	return &above, &below
}

// least returns the least fraction at which a condition is true, which stays true for larger ones: to three digits, 0 where
// that is below a millionth, and 1 if there is none.
func least(condition func(p float64) bool) float64 {
	const smallest, steps = -6.0, 13
	low, high := smallest, 0.0 // decimal exponents
	if !condition(math.Nextafter(1, 0)) {
		return 1
	}
	if condition(math.Pow10(int(smallest))) {
		return 0
	}
	for range steps {
		if middle := (low + high) / 2; condition(math.Pow(10, middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Pow(10, high)
}

// text says what the ratio is and what its threshold.
func (s *ratio) text() string { return s.words(s.total) }

// againstText is text with the ratio that counts against the candidate.
func (s *ratio) againstText() string { return s.words(s.against.total) }

func (s *ratio) words(t evidence.Tally) string {
	v := s.of.Value(t)
	if v == nil {
		return s.of.String() + " has not been measured"
	}
	return fmt.Sprintf("%s is %s %s, its threshold %s",
		s.of, humanize.Percent(*v), denominatorWords[s.of], humanize.Percent(s.threshold))
}
