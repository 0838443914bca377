package gate

import (
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Point is an hour of the evidence, to be drawn.
type Point struct {
	// At is when the hour ends, or the instant judged.
	At time.Time `json:"at"`
	// Ratios are those of the hour, nil without a denominator; Scores are those of the
	// blocks that were closed by then. Both are in the order of divergence.AllRatios.
	Ratios [len(divergence.AllRatios)]*float64 `json:"ratios"`
	Scores [len(divergence.AllRatios)]float64  `json:"scores"`
}

// Series returns the hours of the evidence, in order, by a configuration with its
// defaults filled in. An hour without traffic has a point, too, and its ratios are nil.
func Series(cfg Config, e Evidence) []Point {
	j := judge(cfg, &e)
	var points []Point
	var closed [len(divergence.AllRatios)]int
	var scores [len(divergence.AllRatios)]score
	for i := range scores {
		scores[i] = unscored()
	}

	for from := e.Since.Unix() / divergence.SecondsPerHour; from*minutesAnHour < j.now; from++ {
		to := min((from+1)*minutesAnHour, j.now)
		tally := recent(between(e.History.Minutes, from*minutesAnHour, to), 0)
		p := Point{At: atMinute(to)}
		for i, s := range j.streams {
			for ; closed[i] < len(s.blocks) && s.blocks[closed[i]].To <= to; closed[i]++ {
				b := &s.blocks[closed[i]]
				scores[i].add(b.taken, s.threshold, b.weight)
			}
			p.Ratios[i], p.Scores[i] = s.ratio.Value(tally), scores[i].value()
		}
		points = append(points, p)
	}
	return points
}
