package gate

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// WriteText writes the verdict, its ratios and its conditions for a terminal of 80 columns.
func (g *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "gate%s: %s, %d of %d conditions met\n", g.stepText(), humanize.Visible(g.Verdict), g.Met(), len(g.Conditions))
	fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(humanize.Wrap(humanize.Visible(g.Reason), 76), "\n", "\n  "))

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  \tratio\t95 % range\tthreshold\tscore\tregression\t")
	row := func(name string, part *RatioResult) {
		if part.Threshold == 0 {
			fmt.Fprintf(table, "  %s\t%s\t\tnot judged\t\t\t\n", name, optional(part.Ratio))
			return
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", name, optional(part.Ratio), part.Range(),
			humanize.Percent(part.Threshold), ScoreText(part.Score), ScoreText(part.Regression))
	}
	for _, r := range evidence.AllRatios[:evidence.AllowsCost] {
		row(r.String(), g.Ratio(r))
		for by := evidence.AllowsCost; g.ByCost != nil && int(by) < len(evidence.AllRatios); by++ {
			if by.OfRequests() == r {
				row("by cost", g.Ratio(by))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}

	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  condition\tmet\thave\tneed")
	for i := range g.Conditions {
		c := &g.Conditions[i]
		met := "no"
		if c.Met {
			met = "yes"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", humanize.Visible(c.Name), met, humanize.Visible(c.Have), humanize.Visible(c.Need))
	}
	err := table.Flush()
	if g.NotBefore != nil && err == nil {
		_, err = fmt.Fprintf(w, "  not before %s\n", dated(*g.NotBefore))
	}
	return err
}

// stepText names the step that the verdict is for; "" if no step was asked for.
func (g *Result) stepText() string {
	if g.Step == "" {
		return ""
	}
	return " for " + humanize.Visible(g.Step)
}

// Range writes the range of the ratio: 0.21 to 0.71 %, or "-" before the first hour has ended.
func (r *RatioResult) Range() string {
	if r.LowerBound == nil || r.UpperBound == nil {
		return "-"
	}
	if *r.LowerBound == 0 {
		return "below " + humanize.Percent(*r.UpperBound)
	}
	return strings.TrimSuffix(humanize.Percent(*r.LowerBound), " %") + " to " + humanize.Percent(*r.UpperBound)
}

// ScoreText writes a score with as many digits as a person compares.
func ScoreText(score float64) string {
	switch {
	case score > 9_999_999:
		return ">9,999,999"
	case score >= 100:
		return humanize.Grouped(int64(score))
	}
	return fmt.Sprintf("%.3g", score)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return humanize.Percent(*v)
}

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04") }

// dated writes an instant as a sentence names it.
func dated(t time.Time) string { return t.Format("Mon 2006-01-02 15:04 MST") }

func hoursOfMinutes(n int64) string { return hours(time.Duration(n) * time.Minute) }

// hours writes hours to a tenth, and less than an hour in minutes. It rounds down: too few hours must not look like enough.
func hours(d time.Duration) string {
	const rounding = 1e-6 // a tenth of an hour has no exact form
	switch h := d.Hours(); {
	case h >= 10_000:
		return humanize.Grouped(int64(h)) + " h"
	case h > 0 && h < 1:
		return fmt.Sprintf("%d min", int64(h*60+rounding))
	default:
		return strconv.FormatFloat(math.Floor(h*10+rounding)/10, 'f', -1, 64) + " h"
	}
}
