package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// UncomparedCauses returns why requests could not be compared, the most frequent cause first.
func UncomparedCauses(h *evidence.History) []Cause {
	list := []Cause{}
	if n := h.Total()[evidence.AuthoritativeError]; n > 0 {
		list = append(list, Cause{evidence.AuthoritativeError.String(), n})
	}
	for r, n := range h.Skipped() {
		if n > 0 {
			list = append(list, Cause{algorithms.SkipReason(r).String(), n})
		}
	}

	slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// NotCompared says how many requests have no two answers to compare, and why, or "" if all have.
func (p *Policy) NotCompared() string {
	text := p.Summary.NotCompared()
	if text == "" {
		return ""
	}
	// A ledger that another program has changed may have no cause.
	return text + ": " + cmp.Or(shares(p.CausesUncompared), "a side failed, was skipped or was degraded")
}

// NotCompared says how many requests have no two answers to compare, or "" if all have.
func (s *Summary) NotCompared() string {
	if s.Uncompared == 0 {
		return ""
	}

	all := s.Comparisons + s.Uncompared
	return fmt.Sprintf("not compared: %s of %s (%s)",
		humanize.Grouped(s.Uncompared), humanize.Counted(all, "request"), humanize.Percent(float64(s.Uncompared)/float64(all)))
}

// DisturbedText says how much of the last day counts for the candidate, and what has disturbed the rest; "" where no instance was
// live.
func (p *Policy) DisturbedText() string {
	q := &p.Gate.Quality
	switch {
	case q.Disturbed == nil:
		return ""
	case *q.Disturbed == 0:
		return fmt.Sprintf("all of the last day counts: %s", hours(q.UndisturbedHours))
	}
	return fmt.Sprintf("%s of the last day count, and %s of its time is disturbed: %s",
		hours(q.UndisturbedHours), humanize.Percent(*q.Disturbed), q.DisturbedBy)
}

// hours writes hours to a tenth, rounded down: too few must not look like enough.
func hours(h float64) string { return fmt.Sprintf("%g h", math.Floor(h*10+1e-6)/10) }
