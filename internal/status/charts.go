package status

import (
	"fmt"
	"io"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// chartHours is the number of hours that a line of WriteCharts shows.
const chartHours = 48

var levels = []rune("▁▂▃▄▅▆▇█")

// WriteCharts draws the ratios of the last hours. Each hour is a bar whose height is the ratio as a share of its
// threshold, or '!' at the threshold and above, or '.' without a ratio.
func (p *Policy) WriteCharts(out io.Writer) error {
	points := p.Series[max(0, len(p.Series)-chartHours):]
	if len(points) == 0 {
		return nil
	}

	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: the last %d hours; a full bar is the threshold, ! is at or over it, . is no data\n",
		p.Name, len(points))
	for _, r := range evidence.AllRatios {
		if p.Gate.Ratio(r).Threshold <= 0 {
			continue
		}
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
