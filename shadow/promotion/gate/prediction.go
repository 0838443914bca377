package gate

import (
	"fmt"
	"math"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Prediction compares how often the candidate denies the keys of a canary with how
// often it would have denied them while they were in shadow. That shows what shadow
// cannot: how clients react to its denials.
type Prediction struct {
	// Seen and Predicted are shares of requests, Margin what they may differ by.
	Seen      float64 `json:"seen"`
	Predicted float64 `json:"predicted"`
	Margin    float64 `json:"margin"`
}

// Off reports whether they differ by more than the margin; false for nil.
func (p *Prediction) Off() bool { return p != nil && math.Abs(p.Seen-p.Predicted) > p.Margin }

// String compares the two shares in a part of a sentence.
func (p *Prediction) String() string {
	return fmt.Sprintf("the candidate denies %s of the canary's requests, where shadow predicted %s, plus or minus %s",
		humanize.Percent(p.Seen), humanize.Percent(p.Predicted), humanize.Percent(p.Margin))
}

const (
	// leastMargin is how far seen may be from predicted, relatively.
	leastMargin = 0.2
	// leastPredicted is how many denials each part of a prediction needs.
	leastPredicted = 20
)

// sums are denials and decisions of one side, by cell.
type sums struct {
	decided, denied [divergence.NumCells]float64
}

// add counts the decisions made while a role was enforced, of the hours and cells that
// match.
func (s *sums) add(hours []divergence.Hour, enforced int, match func(hour int64, cell int) bool) {
	for _, h := range hours {
		for i, c := range h.Cells[:min(len(h.Cells), len(s.decided))] {
			if match(h.Unix, i) {
				s.decided[i] += float64(c.Decided[enforced])
				s.denied[i] += float64(c.Denied[enforced])
			}
		}
	}
}

func (s *sums) total() (decided, denied float64) {
	for i := range s.decided {
		decided += s.decided[i]
		denied += s.denied[i]
	}
	return decided, denied
}

// Predict returns what came of the prediction for a canary of percent of the keys, since
// an hour; nil if there is too little to tell. The other keys show how traffic has changed
// since: predicted is the canary's rate before, scaled by how much the others' rate rose.
func Predict(hours []divergence.Hour, percent float64, since int64) *Prediction {
	// An earlier canary step has already changed how some clients behave: the time before
	// the canary ends where the candidate was first enforced.
	began := since
	for _, h := range hours {
		enforced := func(c divergence.Cell) bool { return c.Decided[1] > 0 }
		if h.Unix < began && slices.ContainsFunc(h.Cells, enforced) {
			began = h.Unix
		}
	}

	// A cell that is only partly in the canary is in neither group.
	inside := func(cell int) bool {
		_, upper := divergence.CellRange(cell)
		return upper <= percent
	}
	outside := func(cell int) bool {
		lower, _ := divergence.CellRange(cell)
		return lower >= percent
	}

	var seen, before, others, othersBefore sums
	seen.add(hours, 1, func(hour int64, cell int) bool { return hour >= since && inside(cell) })
	before.add(hours, 0, func(hour int64, cell int) bool { return hour < began && inside(cell) })
	others.add(hours, 0, func(hour int64, cell int) bool { return hour >= since && outside(cell) })
	othersBefore.add(hours, 0, func(hour int64, cell int) bool { return hour < began && outside(cell) })

	for _, s := range []*sums{&before, &others, &othersBefore} {
		if _, denied := s.total(); denied < leastPredicted {
			return nil
		}
	}
	predicted := rate(&before) * rate(&others) / rate(&othersBefore)
	decided, _ := seen.total()
	if decided*predicted < leastPredicted {
		return nil
	}

	// With all requests in one cell it is unknown how far clients differ, and JSON has no
	// infinity.
	p := &Prediction{Seen: rate(&seen), Predicted: predicted}
	deviation := predicted * math.Sqrt(variance(&seen, &before)+variance(&others, &othersBefore))
	if math.IsInf(deviation, 1) {
		return nil
	}
	p.Margin = math.Max(leastMargin*predicted, 2*deviation)
	return p
}

// rate returns the share of the decisions that are denials, 0 to 1; the caller has made sure that there are decisions.
func rate(s *sums) float64 {
	decided, denied := s.total()
	return denied / decided
}

// variance is the variance of the logarithm of the ratio of two rates of the same cells. It takes
// cells and not requests for independent, because the requests of one client are alike
// (delta method, with the influence of each cell).
func variance(now, before *sums) float64 {
	influence := func(s *sums, i int) float64 {
		decided, denied := s.total()
		return (s.denied[i] - denied/decided*s.decided[i]) / math.Max(denied, 1)
	}

	sum, n := 0.0, 0.0
	for i := range now.decided {
		if now.decided[i]+before.decided[i] > 0 {
			d := influence(now, i) - influence(before, i)
			sum += d * d
			n++
		}
	}

	// One cell has no variance to measure.
	if n < 2 {
		return math.Inf(1)
	}
	return sum * n / (n - 1)
}
