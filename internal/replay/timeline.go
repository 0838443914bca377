package replay

import (
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// columns is the width of the chart over time.
const columns = 60

// timeline counts outcomes in equal spans between the first and the last event.
type timeline struct {
	first, span int64 // microseconds
	tallies     [columns]divergence.Tally
}

func newTimeline(sorted *eventList) timeline {
	if sorted.len() == 0 {
		return timeline{span: 1}
	}

	// Rounded up, so that the last event is within the last column.
	first, last := sorted.at(0).at, sorted.last().at
	return timeline{first: first, span: max(1, (last-first)/columns+1)}
}

func (t *timeline) add(at int64, o divergence.Outcome) {
	t.tallies[(at-t.first)/t.span][o]++
}

// Span returns the time that a column covers.
func (t *timeline) Span() time.Duration { return time.Duration(t.span) * time.Microsecond }

// counts returns one outcome's count per column, and the largest.
func (t *timeline) counts(o divergence.Outcome) (counts [columns]int64, peak int64) {
	for i := range t.tallies {
		counts[i] = t.tallies[i][o]
		peak = max(peak, counts[i])
	}
	return counts, peak
}
