package status

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Histogram draws counts of an outcome in equal columns of time, the first of which begins at from. It draws nothing of nothing: ok is
// false.
func Histogram(o divergence.Outcome, counts []int64, from time.Time, column time.Duration) (c Chart, ok bool) {
	var peak int64
	for _, n := range counts {
		peak = max(peak, n)
	}
	if peak == 0 {
		return c, false
	}

	// A column with a single request is seen beside a large peak: it is two hundredths high at least.
	var path strings.Builder
	path.WriteString("M0 100")
	for i, n := range counts {
		height := chartHeight * float64(n) / float64(peak)
		if n > 0 {
			height = math.Max(height, 2)
		}
		fmt.Fprintf(&path, "V%.1fH%.1f", chartHeight-height, chartWidth*float64(i+1)/float64(len(counts)))
	}
	path.WriteString("V100")

	name, end := spaced(o.String()), from.Add(time.Duration(len(counts))*column)
	text := fmt.Sprintf("Requests that are %s, in columns of %s; at most %s", name, humanize.Span(column), humanize.Grouped(peak))
	return Chart{
		Caption: text, Title: text, Desc: fmt.Sprintf("from %s to %s", instant(from), instant(end)),
		Lines: []line{{Class: o.String(), Path: path.String()}},
		Ticks: span{from, end}.ticks(), Moved: -1,
	}, true
}

// Place is a point of Scatter. The values are fractions; Class is a class of lines.
type Place struct {
	X, Y  float64
	Class string
}

// Scatter draws points over two ratios, X to the right and Y upwards, with a threshold of Y.
func Scatter(caption, desc string, points []Place, threshold float64) Chart {
	right, top := 0.0, threshold
	for _, p := range points {
		right, top = math.Max(right, p.X), math.Max(top, p.Y)
	}
	right, top = math.Max(right, 0.01)*1.05, math.Max(top, 0.001)*1.05

	c := Chart{Caption: caption, Title: caption, Desc: desc, Moved: -1}
	for _, p := range points {
		dot := fmt.Sprintf("M%.1f %.1fh0", chartWidth*p.X/right, chartHeight*(1-p.Y/top))
		c.Lines = append(c.Lines, line{Class: p.Class, Dots: dot})
	}
	c.Levels = []level{levelAt(func(v float64) (float64, bool) { return v / top, false }, threshold, "threshold", humanize.Percent(threshold))}
	for i := 1; i <= 4; i++ {
		c.Ticks = append(c.Ticks, tick{100 * float64(i) / 5, humanize.Percent(right * float64(i) / 5)})
	}
	return c
}
