package status

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// A chart is drawn into a box of chartWidth by chartHeight, which the page stretches;
// lines and labels are not stretched with it.
const (
	chartWidth  = 1000.0
	chartHeight = 100.0
	mostPoints  = 200
	mostTicks   = 5
)

// Chart is the data of the part chart: one drawing of lines over the same time.
type Chart struct {
	Caption, Title, Desc string
	Lines                []line
	Ticks                []tick  // of time
	Levels               []level // across
	Moved                float64 // the last move, in percent of the width; negative if it is not on the chart
}

// line is the path of one ratio, its points without neighbours, and marks where it was cut at the top.
type line struct {
	Class, Path, Dots, Cut string
}

// tick is a place on the axis, in percent of the width.
type tick struct {
	X     float64
	Label string
}

// level is a horizontal line, in percent of the height from the top.
type level struct {
	Y           float64
	Class, Name string
}

// scale turns a value into a height from 0, the bottom, to 1, the top, and reports whether the page should mark the
// value as cut.
type scale func(v float64) (float64, bool)

// Bounds of the charts.
const (
	mostOfThreshold = 1.5
	leastScore      = 0.1
	mostScore       = 1e7
)

// linear is the scale of ratios as shares of their thresholds.
func linear(v float64) (float64, bool) { return math.Min(v/mostOfThreshold, 1), v > mostOfThreshold }

// logarithmic is the scale of scores. A score beyond its top is not marked: it is as good as one at the top.
func logarithmic(v float64) (float64, bool) {
	height := math.Log(math.Max(v, leastScore)/leastScore) / math.Log(mostScore/leastScore)
	return math.Min(height, 1), false
}

// charts draws the series, or nothing if it has no points.
func (p *Policy) charts() []Chart {
	points, each := merged(p.Series, mostPoints)
	if len(points) == 0 {
		return nil
	}

	ratios := Chart{
		Caption: "Ratios of each hour, as shares of their thresholds",
		Desc:    p.describeRatios(),
		Levels:  []level{levelAt(linear, 1, "threshold", "threshold")},
	}
	if each > 1 {
		ratios.Caption = fmt.Sprintf("Ratios of the worst hour in each %d, as shares of their thresholds", each)
	}
	scores := Chart{
		Caption: "Scores, logarithmic: steps to 10 %, 50 % and all keys need 400, 10,000 and 1,000,000",
		Desc:    p.describeScores(),
		Levels: []level{
			levelAt(logarithmic, 1, "faint", "1"),
			levelAt(logarithmic, 400, "enough", "400"),
			levelAt(logarithmic, 1e4, "enough", "10,000"),
			levelAt(logarithmic, 1e6, "enough", "1,000,000"),
		},
	}

	span := spanOf(p.Series)
	for _, r := range evidence.AllRatios {
		threshold := p.Gate.Ratio(r).Threshold
		ratio := func(q *gate.Point) (float64, bool) {
			if q.Ratios[r] == nil || threshold <= 0 {
				return 0, false
			}
			return *q.Ratios[r] / threshold, true
		}
		score := func(q *gate.Point) (float64, bool) { return q.Scores[r], threshold > 0 }

		ratios.Lines = append(ratios.Lines, span.draw(r, points, linear, ratio))
		scores.Lines = append(scores.Lines, span.draw(r, points, logarithmic, score))
	}

	list := []Chart{ratios, scores}
	for i := range list {
		list[i].Title = p.Name + ": " + list[i].Caption
		list[i].Ticks = span.ticks()
		list[i].Moved = span.percent(p.At)
	}

	return list
}

// Label returns the position of the level's name in pixels: above its line, or below it where there is no room above.
func (l level) Label() float64 {
	const top, above, below = 6, 3, 11
	if l.Y < above+below {
		return top + l.Y + below
	}

	return top + l.Y - above
}

func levelAt(s scale, v float64, class, name string) level {
	height, _ := s(v)
	return level{100 * (1 - height), class, name}
}

// merged reduces a series to at most most points, each of as many neighbours as the others: it has their worst ratios,
// so that a bad hour stays visible, and their last scores.
func merged(series []gate.Point, most int) (points []gate.Point, each int) {
	each = max(1, (len(series)+most-1)/most)
	for from := 0; from < len(series); from += each {
		group := series[from:min(from+each, len(series))]
		p := group[len(group)-1]
		for _, q := range group {
			for i, v := range q.Ratios {
				if v != nil && (p.Ratios[i] == nil || *v > *p.Ratios[i]) {
					p.Ratios[i] = v
				}
			}
		}
		points = append(points, p)
	}

	return points, each
}

// span is the time that a chart shows.
type span struct{ from, to time.Time }

func spanOf(series []gate.Point) span {
	first, last := series[0].At, series[len(series)-1].At

	// A point stands at the end of its hour, so the first one began up to an hour earlier.
	return span{first.Add(-time.Nanosecond).Truncate(time.Hour), last}
}

// percent returns the position of an instant, or -1 if it is not on the chart.
func (s span) percent(at time.Time) float64 {
	if at.Before(s.from) || at.After(s.to) || !s.to.After(s.from) {
		return -1
	}

	return 100 * float64(at.Sub(s.from)) / float64(s.to.Sub(s.from))
}

// draw makes the path of a line, which is interrupted where there is no value. A point without neighbours is a dot.
func (s span) draw(
	r evidence.Ratio, points []gate.Point, scale scale, value func(*gate.Point) (float64, bool),
) line {
	var path, dots, cut strings.Builder
	known := func(i int) bool {
		if i < 0 || i >= len(points) {
			return false
		}
		_, ok := value(&points[i])
		return ok
	}

	for i := range points {
		v, ok := value(&points[i])
		if !ok {
			continue
		}

		x := s.percent(points[i].At) / 100 * chartWidth
		height, cutOff := scale(v)
		y := chartHeight * (1 - height)
		if cutOff {
			fmt.Fprintf(&cut, "M%.1f 0h0", x)
		}

		// A path of one point draws nothing, so such a point is a dot.
		switch before, after := known(i-1), known(i+1); {
		case before:
			fmt.Fprintf(&path, "L%.1f %.1f", x, y)
		case after:
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
		default:
			fmt.Fprintf(&dots, "M%.1f %.1fh0", x, y)
		}
	}

	return line{r.String(), path.String(), dots.String(), cut.String()}
}

// tickSteps are the distances that ticks may have.
var tickSteps = []time.Duration{
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 48 * time.Hour, 96 * time.Hour, 7 * 24 * time.Hour,
}

// ticks returns ticks at round times.
func (s span) ticks() (list []tick) {
	step := tickSteps[len(tickSteps)-1]
	for _, d := range tickSteps {
		if s.to.Sub(s.from) <= mostTicks*d {
			step = d
			break
		}
	}

	// A log may be of years.
	for s.to.Sub(s.from) > mostTicks*step {
		step *= 2
	}

	// A label near the edge would be cut.
	for at := s.from.UTC().Truncate(step); !at.After(s.to); at = at.Add(step) {
		if x := s.percent(at); x >= 8 && x <= 92 {
			list = append(list, tick{x, tickLabel(at)})
		}
	}

	return list
}

func tickLabel(at time.Time) string {
	if at.Hour() == 0 {
		return at.Format("Mon 2 Jan")
	}
	return at.Format("15:04")
}

// describeRatios says in words what the chart of ratios shows, for screen readers.
func (p *Policy) describeRatios() string {
	var texts []string
	for _, r := range evidence.AllRatios {
		threshold := p.Gate.Ratio(r).Threshold
		if threshold <= 0 {
			continue
		}
		bad, hours := 0, 0
		for _, q := range p.Series {
			if v := q.Ratios[r]; v != nil {
				hours++
				if *v >= threshold {
					bad++
				}
			}
		}

		texts = append(texts, fmt.Sprintf("%s: %d of %s at or over the threshold of %s",
			spaced(r.String()), bad, humanize.Counted(int64(hours), "hour"), humanize.Percent(threshold)))
	}

	return strings.Join(texts, "; ")
}

func scoreText(score float64) string {
	switch {
	case score > mostScore:
		return ">10,000,000"
	case score >= 100:
		return humanize.Grouped(int64(score))
	}
	return fmt.Sprintf("%.3g", score)
}

// describeScores says in words what the chart of scores shows, for screen readers.
func (p *Policy) describeScores() string {
	var texts []string
	last := p.Series[len(p.Series)-1]
	for _, r := range evidence.AllRatios {
		if p.Gate.Ratio(r).Threshold <= 0 {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %s", spaced(r.String()), scoreText(last.Scores[r])))
	}

	return "at the end " + strings.Join(texts, "; ")
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
