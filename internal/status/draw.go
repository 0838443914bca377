package status

import (
	"fmt"
	"math"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// A chart is drawn into a box of chartWidth by chartHeight, which the page stretches; labels are not stretched with it.
const (
	chartWidth  = 1000.0
	chartHeight = 100.0
)

// Chart is the data of the part chart: points over two ratios.
type Chart struct {
	Caption, Desc string
	Points        []point
	Ticks         []tick
	Threshold     level
}

// point is the path of a dot, in a class of lines.
type point struct{ Class, Path string }

// tick is a place on the axis, in percent of the width.
type tick struct {
	X     float64
	Label string
}

// level is a horizontal line, in percent of the height from the top.
type level struct {
	Y    float64
	Name string
}

// Label returns the position of the level's name in pixels: above its line, or below it where there is no room above.
func (l level) Label() float64 {
	const top, above, below = 6, 3, 11
	if l.Y < above+below {
		return top + l.Y + below
	}
	return top + l.Y - above
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

	c := Chart{Caption: caption, Desc: desc, Threshold: level{100 * (1 - threshold/top), humanize.Percent(threshold)}}
	for _, p := range points {
		c.Points = append(c.Points, point{p.Class, fmt.Sprintf("M%.1f %.1fh0", chartWidth*p.X/right, chartHeight*(1-p.Y/top))})
	}
	for i := 1; i <= 4; i++ {
		c.Ticks = append(c.Ticks, tick{100 * float64(i) / 5, humanize.Percent(right * float64(i) / 5)})
	}
	return c
}
