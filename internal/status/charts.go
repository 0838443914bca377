package status

import (
	"fmt"
	"io"
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// chartHours is how many hours a line of WriteCharts shows.
const chartHours = 48

var levels = []rune("▁▂▃▄▅▆▇█")

// WriteCharts draws the ratios of the last hours: a bar for each, as high as it is a
// part of its threshold, '!' where it was over that, '.' where there was nothing to
// measure.
func (p *Policy) WriteCharts(out io.Writer) error {
	points := p.Series[max(0, len(p.Series)-chartHours):]
	if len(points) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: the last %d hours, a full bar is the threshold, ! is over it\n", p.Name, len(points))
	for _, r := range divergence.AllRatios {
		bars := make([]rune, len(points))
		for i := range points {
			bars[i] = bar(points[i].Ratios[r], p.Gate.Ratio(r).Threshold)
		}
		fmt.Fprintf(&b, "  %13s  %s\n", r, string(bars))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func bar(ratio *float64, threshold float64) rune {
	switch {
	case ratio == nil:
		return '.'
	case *ratio == 0:
		return ' '
	case *ratio >= threshold:
		return '!'
	}
	return levels[int(*ratio/threshold*float64(len(levels)))]
}
