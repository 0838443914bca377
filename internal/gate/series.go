package gate

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Point is an hour of the evidence, to be drawn.
type Point struct {
	// At is when the hour ends, or the instant judged.
	At time.Time `json:"at"`
	// Ratios are those of the hour, nil without a denominator; Scores are those of the
	// blocks that were closed by then, 0 of a ratio that is not judged. Both are in the order of evidence.AllRatios.
	Ratios [len(evidence.AllRatios)]*float64 `json:"ratios"`
	Scores [len(evidence.AllRatios)]float64  `json:"scores"`
}

// Series returns the hours of the evidence, in order, by a configuration with its
// defaults filled in. An hour without traffic has a point, too, and its ratios are nil.
func Series(cfg Config, e Evidence) []Point {
	j := begin(cfg, &e)
	now := e.Now.Unix() / 60
	var points []Point
	for from := keptSince(j.since, now) / minutesAnHour; from*minutesAnHour < now; from++ {
		to := min((from+1)*minutesAnHour, now)
		j.advance(to)
		tally := recent(j.minutes, from*minutesAnHour)
		p := Point{At: atMinute(to)}
		for i := range j.ratios {
			s := &j.ratios[i]
			if p.Ratios[i] = s.of.Value(tally); s.judged() {
				p.Scores[i] = s.score.mean()
			}
		}
		points = append(points, p)
	}
	return points
}
