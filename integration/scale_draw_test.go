package integration

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const performanceFile = "../docs/performance.md"

// writing is held while a part of the page is replaced.
var writing sync.Mutex

// writeBlock replaces a generated part of docs/performance.md.
func writeBlock(t *testing.T, name, text string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	page, err := os.ReadFile(performanceFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), "<!-- begin "+name+" -->\n")
	_, after, ends := strings.Cut(rest, "<!-- end "+name+" -->\n")
	if !begins || !ends {
		t.Fatalf("%s has no place for %s", performanceFile, name)
	}

	next := before + "<!-- begin " + name + " -->\n" + text + "<!-- end " + name + " -->\n" + after
	if err := os.WriteFile(performanceFile, []byte(next), 0o644); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("scale: %s:\n%s", name, text)
}

// table is one in Markdown, its first line the header.
func table(lines ...[]string) string {
	var b strings.Builder
	for n, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if n == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return b.String()
}

// panel is a drawing with logarithmic axes, in which a straight line is a power: one that rises by a decade in a decade is linear.
type panel struct {
	title, across string
	lines         []curve
}

// curve is a line of a panel.
type curve struct {
	name string
	x, y []float64
}

// Sizes of a panel.
const (
	wide, high   = 330, 250
	left, bottom = 50, 40
	top, right   = 40, 15
)

var colours = []string{"#1f5fa8", "#b5541c", "#2f7d32", "#7a3c8f"}

// draw writes panels beside each other.
func draw(t *testing.T, file string, panels ...panel) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		wide*len(panels), high)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", wide*len(panels), high)
	for n, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n%s</g>\n", n*wide, p.drawn())
	}
	b.WriteString("</svg>\n")
	if err := os.WriteFile(filepath.Join("../docs", file), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// decades returns the powers of ten around numbers.
func decades(numbers []float64) (from, to float64) {
	from, to = math.Floor(math.Log10(slices.Min(numbers))), math.Ceil(math.Log10(slices.Max(numbers)))
	return from, max(to, from+1)
}

func (p *panel) drawn() string {
	var xs, ys []float64
	for _, c := range p.lines {
		xs, ys = append(xs, c.x...), append(ys, c.y...)
	}
	x0, x1 := decades(xs)
	y0, y1 := decades(ys)
	across := func(v float64) float64 { return left + (math.Log10(v)-x0)/(x1-x0)*(wide-left-right) }
	up := func(v float64) float64 { return high - bottom - (math.Log10(v)-y0)/(y1-y0)*(high-top-bottom) }

	var b strings.Builder
	fmt.Fprintf(&b, `<text x="%d" y="16" font-weight="bold">%s</text>`+"\n", left, p.title)
	for d := x0; d <= x1; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(&b, `<path d="M%.0f %d V%d" stroke="#ddd"/><text x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n",
			across(v), top, high-bottom, across(v), high-bottom+14, short(v))
	}
	for d := y0; d <= y1; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(&b, `<path d="M%d %.0f H%d" stroke="#ddd"/><text x="%d" y="%.0f" text-anchor="end">%s</text>`+"\n",
			left, up(v), wide-right, left-4, up(v)+4, short(v))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+wide-right)/2, high-8, p.across)

	for n, c := range p.lines {
		var path, dots strings.Builder
		for i := range c.x {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: " L"}[i == 0], across(c.x[i]), up(c.y[i]))
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="2.5"/>`, across(c.x[i]), up(c.y[i]))
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s"/><g fill="%[2]s">%s</g>`+"\n", path.String(), colours[n], dots.String())
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+6+n*130, 32, colours[n], c.name)
	}
	return b.String()
}

// short writes a number with few characters.
func short(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= unit.of {
			return fmt.Sprintf("%.3g%s", v/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%.3g", v)
}
