package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// The rows of a sweep that are shown to people. JSON has them all.
const (
	shownFrontier  = 40
	shownDominated = 20
)

// writeText writes the frontier as a table, the candidates that it dominates, and the least candidate.
func (r *SweepReport) writeText(b *strings.Builder, p *PolicyReport) {
	fmt.Fprintf(b, "  authoritative  %s\n  candidates     %s of %s\n                 with other %s\n",
		p.Authoritative, humanize.Grouped(int64(len(r.Candidates))), p.Candidate, strings.Join(r.Numbers, ", "))
	p.Observed.writeText(b)

	for _, t := range r.Tables() {
		fmt.Fprintf(b, "\n%s\n", t.Title)
		r.writeTable(b, t)
	}
	r.writeLeast(b)
}

// SweepTable is a list of candidates, in the order of what they newly deny, as far as people are shown it.
type SweepTable struct {
	Title string
	Rows  []*Swept
	More  int // that are not shown
}

// Tables are the frontier, and the dominated candidates if there are any.
func (r *SweepReport) Tables() []SweepTable {
	var frontier, dominated []*Swept
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Dominated {
			dominated = append(dominated, c)
		} else {
			frontier = append(frontier, c)
		}
	}

	list := []SweepTable{sweepTable("frontier of harm and protection: less of one is more of the other", frontier, shownFrontier)}
	if len(dominated) > 0 {
		list = append(list,
			sweepTable("dominated: another one newly denies and newly allows no more, and less of one", dominated, shownDominated))
	}
	return list
}

func sweepTable(title string, list []*Swept, most int) SweepTable {
	slices.SortStableFunc(list, func(x, y *Swept) int { return cmp.Compare(x.NewlyDenied, y.NewlyDenied) })
	n := min(len(list), most)
	return SweepTable{title, list[:n], len(list) - n}
}

func (r *SweepReport) writeTable(b *strings.Builder, t SweepTable) {
	widths := r.widths()
	line := func(numbers []string, denied, allowed, load, keys, verdict string) {
		text := " "
		for i, n := range numbers {
			text += fmt.Sprintf(" %*s", widths[i], n)
		}
		text += fmt.Sprintf("  %7s  %7s  %7s  %7s  %s", denied, allowed, load, keys, verdict)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}

	blank := make([]string, len(r.Numbers))
	line(blank, "newly", "newly", "extra", "keys", "")
	line(r.Numbers, "denied", "allowed", "load", "hurt", "gate")
	for _, c := range t.Rows {
		values := make([]string, len(c.Numbers))
		for i, n := range c.Numbers {
			values[i] = n.Text()
		}
		line(values, percentOf(c.Ratios.NewlyDenied), percentOf(c.Ratios.NewlyAllowed), percentOf(c.Ratios.ExtraLoad),
			humanize.Grouped(c.KeysNewlyDenied), c.Gate.Verdict)
	}
	if t.More > 0 {
		fmt.Fprintf(b, "  and %d more: -o json has all\n", t.More)
	}
}

// widths are those of the columns of numbers.
func (r *SweepReport) widths() []int {
	widths := make([]int, len(r.Numbers))
	for i, name := range r.Numbers {
		widths[i] = len(name)
		for k := range r.Candidates {
			widths[i] = max(widths[i], len(r.Candidates[k].Numbers[i].Text()))
		}
	}
	return widths
}

// percentOf writes a ratio without a space, as a table needs it; - without a denominator.
func percentOf(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return strings.ReplaceAll(humanize.Percent(*ratio), " ", "")
}

func (r *SweepReport) writeLeast(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", r.Sentence())
	if c := r.Chosen(); c != nil {
		fmt.Fprintf(b, "  %s\n  gate: %s: %s\n", c.Candidate, c.Gate.Verdict, c.Gate.Reason)
		if text := c.Hurt.String(); text != "" {
			fmt.Fprintf(b, "  %s\n", text)
		}
	}
}

// Sentence names the least candidate, or says that there is none.
func (r *SweepReport) Sentence() string {
	c := r.Chosen()
	if c == nil {
		return "no candidate keeps newly denied below " + humanize.Percent(r.Threshold)
	}
	return fmt.Sprintf("least %s that keeps newly denied below %s: %s", r.Least.Number, humanize.Percent(r.Threshold), c.Numbers)
}

// Chosen is the least candidate; nil if there is none.
func (r *SweepReport) Chosen() *Swept {
	if r.Least == nil {
		return nil
	}
	return &r.Candidates[r.Least.index]
}
