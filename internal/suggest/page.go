package suggest

import (
	_ "embed"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

//go:embed page.html
var pageText string

var pageTemplate = status.Template(pageText)

// The picture's box. Left of it and below are the labels of its axes.
const (
	pictureWidth, pictureHeight = 720.0, 300.0
	pictureLeft, pictureBottom  = 60.0, 40.0
)

// picture is how many clients a limit touches, by limit: a line for each window. Both axes are logarithmic.
type picture struct {
	Width, Height float64
	Lines         []line
	Across, Up    []label
}

// line is that of a window, with its name at its end, and the proposal as a dot.
type line struct {
	Name, Path, Color string
	At                [2]float64 // of the name
	Dot               [2]float64
}

type label struct {
	X, Y float64
	Text string
}

// colors are those of the windows, to be told apart by people who see few colors, on white and on black.
var colors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"}

func pictureOf(r *Report) picture {
	p := picture{Width: pictureLeft + pictureWidth + 60, Height: pictureHeight + pictureBottom}
	list := r.ByWindow()
	if len(list) == 0 {
		return p
	}

	right := 10.0
	for _, one := range list {
		right = max(right, float64(one.most[0]))
	}
	clients := float64(len(list[0].most))
	x := func(limit float64) float64 { return pictureLeft + pictureWidth*math.Log(max(limit, 1))/math.Log(right) }
	y := func(touched float64) float64 {
		return 10 + (pictureHeight-10)*(1-math.Log(touched+1)/math.Log(clients+1))
	}

	for i, one := range list {
		l := line{Name: one.Window, Color: colors[i], Path: pathOf(one.most, x, y)}
		end := float64(one.most[0])
		l.At = [2]float64{x(end) + 4, y(0) - 4 - float64(12*(i%2))}
		l.Dot = [2]float64{x(float64(one.Limit)), y(float64(above(one.most, one.Limit)))}
		p.Lines = append(p.Lines, l)
	}
	for n := 1.0; n <= right; n *= 10 {
		p.Across = append(p.Across, label{x(n), pictureHeight + 16, humanize.Grouped(int64(n))})
	}
	p.Up = append(p.Up, label{pictureLeft - 6, y(0), "0"})
	for n := 1.0; n <= clients; n *= 10 {
		p.Up = append(p.Up, label{pictureLeft - 6, y(n), humanize.Grouped(int64(float64(n) / r.SampledKeys))})
	}
	return p
}

// pathOf draws how many of the sorted numbers are above each limit, by steps of a twentieth.
func pathOf(sorted []int64, x, y func(float64) float64) string {
	var b strings.Builder
	command := "M"
	for limit := int64(1); ; limit = max(limit+1, limit*21/20) {
		limit = min(limit, sorted[0])
		fmt.Fprintf(&b, "%s%.1f %.1f", command, x(float64(limit)), y(float64(above(sorted, limit))))
		command = "L"
		if limit == sorted[0] {
			return b.String()
		}
	}
}

// above is how many of the sorted numbers are above a limit.
func above(sorted []int64, limit int64) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] <= limit })
}
