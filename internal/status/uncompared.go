package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// uncomparedRemedies say what to do about requests that could not be compared, by cause.
var uncomparedRemedies = map[string]string{
	evidence.AuthoritativeError.String(): "repair the authoritative limiter or its store",
	algorithms.QueueFull.String():        "the candidate is too slow for the traffic, so check the latency of its store",
	algorithms.BreakerOpen.String():      "a store or the candidate failed again and again, so see its errors in the log",
	algorithms.StoreFailed.String():      "the candidate's store did not answer, so check its latency and memory",
	algorithms.MemoryFull.String():       "more keys are active than the memory store has places, so give it more",
	algorithms.OtherReason.String():      "clients disconnect early or instances restart often, so look for short timeouts and restarts",
}

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

// WhyUncompared names the causes with their shares, and what to do about the most frequent one.
func WhyUncompared(causes []Cause) string {
	// A ledger that another program has changed may have none.
	if len(causes) == 0 {
		return "a side failed, was skipped or was degraded"
	}

	var sum int64
	for _, c := range causes {
		sum += c.Count
	}
	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.Cause + " " + humanize.Percent(float64(c.Count)/float64(sum))
	}
	return strings.Join(texts, ", ") + "; " + uncomparedRemedies[causes[0].Cause]
}

// NotCompared says how many requests have no two answers to compare, and why, or "" if all have.
func (p *Policy) NotCompared() string {
	text := p.Summary.NotCompared()
	if text == "" {
		return ""
	}
	return text + ": " + WhyUncompared(p.CausesUncompared)
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
