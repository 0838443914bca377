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
// cannot: how clients take its denials.
type Prediction struct {
	// Seen and Predicted are shares of requests, Margin what they may differ by.
	Seen      float64 `json:"seen"`
	Predicted float64 `json:"predicted"`
	Margin    float64 `json:"margin"`
}

// Off reports whether they differ by more than the margin.
func (p *Prediction) Off() bool { return p != nil && math.Abs(p.Seen-p.Predicted) > p.Margin }

// String says what was seen and predicted.
func (p *Prediction) String() string {
	return fmt.Sprintf("the candidate denies %s of the canary's requests, where shadow predicted %s, give or take %s", humanize.Percent(p.Seen), humanize.Percent(p.Predicted), humanize.Percent(p.Margin))
}

const (
	// leastMargin is how far seen may be from predicted, relatively.
	leastMargin = 0.2
	// leastPredicted is how many denials each part of a prediction needs.
	leastPredicted = 20
)

// sums are denials of decisions, by cell.
type sums struct {
	decided, denied [divergence.NumCells]float64
}

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

// Predict returns what came of the prediction for a canary at percent of the keys,
// since an hour; nil if there is too little to tell. The other keys tell how traffic
// has changed meanwhile: predicted is the canary's rate of before, times by how much
// theirs has risen.
func Predict(hours []divergence.Hour, percent float64, since int64) *Prediction {
	began := since
	for _, h := range hours {
		if h.Unix < began && slices.ContainsFunc(h.Cells, func(c divergence.Cell) bool { return c.Decided[1] > 0 }) {
			began = h.Unix
		}
	}
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
	p := &Prediction{Seen: rate(&seen), Predicted: predicted}
	deviation := predicted * math.Sqrt(variance(&seen, &before)+variance(&others, &othersBefore))
	if math.IsInf(deviation, 1) { // all in one cell: nobody knows how far clients differ, and JSON knows no infinity
		return nil
	}
	p.Margin = math.Max(leastMargin*predicted, 2*deviation)
	return p
}

func rate(s *sums) float64 {
	decided, denied := s.total()
	return denied / decided
}

// variance is that of the logarithm of the ratio of two rates of the same cells,
// taking cells and not requests for independent: a client's requests are alike. It is
// the delta method's, with the influence of each cell.
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
	if n < 2 {
		return math.Inf(1)
	}
	return sum * n / (n - 1)
}
