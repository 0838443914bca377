package gate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// WriteText writes the verdict and its numbers for a terminal.
func (g *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "gate%s: %s\n  %s\n", g.stepText(), humanize.Visible(g.Verdict), humanize.Visible(g.Reason))
	fmt.Fprintf(w, "  %s\n", g.soakText())

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  \tratio\t95 % range\tthreshold\tscore\tmirror\t")
	for _, r := range divergence.AllRatios {
		part := g.Ratio(r)
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", r, optional(part.Ratio), part.Range(),
			humanize.Percent(part.Threshold), scoreText(part.Score), scoreText(part.Mirror))
	}
	if err := table.Flush(); err != nil {
		return err
	}

	_, err := fmt.Fprintf(w, "  a pass needs in every row a score of %d or more, and a mirror below %d\n", enough, suspect)
	return err
}

// stepText names the step that the verdict is for; "" if no step was asked for.
func (g *Result) stepText() string {
	if g.Step == "" {
		return ""
	}
	return " for " + humanize.Visible(g.Step)
}

// soakText writes the clean time beside the one that the step needs, where that is known, and the strikes. With three strikes no clean
// time suffices, and hours would look like a way out.
func (g *Result) soakText() string {
	strikes := humanize.Counted(int64(g.Strikes), "strike") + " within 7 days"
	if g.Strikes >= mostStrikes {
		return fmt.Sprintf("%s, and %d fail", strikes, mostStrikes)
	}
	return g.cleanText() + ", " + strikes
}

// cleanText writes the clean time and the strikes.
func (g *Result) cleanText() string {
	if g.CleanHoursNeeded == 0 {
		return hoursText(g.CleanHours) + " clean"
	}
	return hoursText(g.CleanHours) + " clean (" + hoursText(g.CleanHoursNeeded) + " needed)"
}

// Range writes the confidence sequence: 0.21 to 0.71 %, or "-" without a closed block.
func (r *RatioResult) Range() string {
	if r.LowerBound == nil || r.UpperBound == nil {
		return "-"
	}
	if *r.LowerBound == 0 {
		return "below " + humanize.Percent(*r.UpperBound)
	}
	return strings.TrimSuffix(humanize.Percent(*r.LowerBound), " %") + " to " + humanize.Percent(*r.UpperBound)
}

func scoreText(score float64) string {
	if score > 9999 {
		return ">9999"
	}
	return fmt.Sprintf("%.4g", score)
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return humanize.Percent(*v)
}

// Bounds of a course as text: its JSON form has the rest.
const (
	strikesShown  = 5
	verdictsShown = 6
)

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04") }

// WriteText writes the course for a terminal.
func (c *Course) WriteText(w io.Writer) {
	if len(c.Verdicts) == 0 {
		return
	}

	fmt.Fprintf(w, "over the log, in UTC%s\n  %s\n", c.everyText(), c.PassedText())
	if n := len(c.Strikes); n > 0 {
		fmt.Fprintf(w, "  %s\n", humanize.Counted(int64(n), "strike"))
		for _, s := range c.Strikes[:min(n, strikesShown)] {
			fmt.Fprintf(w, "    %s to %s  %s %s, cap %s, from %s\n",
				stamp(s.From), stamp(s.To), s.Ratio, humanize.Percent(s.Value), humanize.Percent(s.Cap),
				cmp.Or(s.Key, "at least 3 keys"))
		}
		moreText(w, n-strikesShown)
	}

	fmt.Fprintln(w, "  verdicts")
	for _, v := range c.Verdicts[:min(len(c.Verdicts), verdictsShown)] {
		fmt.Fprintf(w, "    %s  %s: %s\n", stamp(v.At), v.Verdict, v.Reason)
	}
	moreText(w, len(c.Verdicts)+c.LeftOut-verdictsShown)
}

func moreText(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "    and %d more\n", n)
	}
}

// everyText says how far the instants lie apart, where that is more than an hour.
func (c *Course) everyText() string {
	if c.Every <= 1 {
		return ""
	}
	return fmt.Sprintf(", asked every %d h", c.Every)
}

// PassedText says when the gate would have passed, or what it lacked.
func (c *Course) PassedText() string {
	switch {
	case c.PassedAt != nil && c.FailedAt != nil && c.FailedAt.Before(*c.PassedAt):
		return fmt.Sprintf("the gate would have failed first at %s and passed first at %s",
			stamp(*c.FailedAt), stamp(*c.PassedAt))

	case c.PassedAt != nil && c.FailedAt != nil:
		return fmt.Sprintf("the gate would have passed first at %s and failed first at %s",
			stamp(*c.PassedAt), stamp(*c.FailedAt))

	case c.PassedAt != nil:
		return "the gate would have passed first at " + stamp(*c.PassedAt)

	case c.FailedAt != nil:
		return "the gate would never have passed, and failed first at " + stamp(*c.FailedAt)

	case c.shorter > 0:
		return fmt.Sprintf("the gate would not have passed yet; "+
			"with --soak %s it would have passed at the end of the log%s",
			short(c.shorter), c.tooShort())
	}

	return "the gate would not have passed yet" + c.tooShort()
}

// tooShort says so if no candidate at all could have passed.
func (c *Course) tooShort() string {
	if c.length >= c.soak {
		return ""
	}
	return fmt.Sprintf("; a log of %s is too short for a soak of %s", hours(c.length), hours(c.soak))
}

// short writes whole hours, or whole minutes, as flags take them.
func short(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

// WriteText writes the thresholds for a terminal, as a part of a policy file.
func (p *Proposal) WriteText(w io.Writer) {
	fmt.Fprint(w, "proposed thresholds\n  promotion:\n")
	for _, r := range divergence.AllRatios {
		v := p.Threshold(r)
		if v == nil {
			fmt.Fprintf(w, "    # %s: none, %s\n", r, p.missing[r])
			continue
		}
		fmt.Fprintf(w, "    %s: %g%%  # seen: %s\n", r, math.Round(1e6**v)/1e4, humanize.Percent(*r.Value(p.seen)))
	}
	if p.Divergence == nil && p.NewlyDenied == nil && p.NewlyAllowed == nil && p.ExtraLoad == nil {
		return
	}
	fmt.Fprint(w, "  These are the smallest of 0.1, 0.2, 0.5, 1, 2 and 5 % and so on that are twice as high as the ratios of this log.\n"+
		"  They describe the candidate; you decide whether clients may be affected that much.\n")
}
