package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Report is the plan of all policies that were asked about. Its JSON form is the command line's contract.
type Report struct {
	Policies []Policy `json:"policies"`
	Warnings []string `json:"warnings"`
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	for i := range r.Policies {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := r.Policies[i].writeText(w); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) writeText(w io.Writer) error {
	fmt.Fprintf(w, "policy %s: %s, %s of them denied\n", p.Name, perTime(p.RequestsPerMinute), humanize.Percent(p.DeniedShare))
	if len(p.Cases) == 1 && p.Cases[0].Differences == nil {
		return p.Cases[0].writeLog(w)
	}
	return p.writeRate(w)
}

// perTime writes a rate by the minute, or by the hour or day where that is less than one.
func perTime(aMinute float64) string {
	for _, unit := range []struct {
		name    string
		minutes float64
	}{{"a minute", 1}, {"an hour", 60}} {
		if n := aMinute * unit.minutes; n >= 1 {
			return fmt.Sprintf("%.4g requests %s", n, unit.name)
		}
	}
	return fmt.Sprintf("%.4g requests a day", aMinute*60*24)
}

// writeLog writes a plan from a log: a row for each step.
func (c *Case) writeLog(w io.Writer) error {
	fmt.Fprintf(w, "  the log is repeated, and %s begin in it\n", humanize.Counted(int64(c.Steps[0].Starts), "migration"))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  step\tthat pass\thalf of them all by\tnine in ten by\t")
	for _, s := range c.Steps {
		fmt.Fprintf(table, "  %s\t%.3g %%\t%s\t%s\t\n", s.Name, 100*float64(s.Passed)/float64(s.Starts), span(s.Hours), span(s.Hours90))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "  each step waits at last for\n", c.waits())
	return err
}

// writeRate writes a plan for a rate: a row for each step, a column for each candidate.
func (p *Policy) writeRate(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "  newly denied, of its threshold\t")
	for _, c := range p.Cases {
		fmt.Fprintf(table, "%g %%\t", 100**c.Differences)
	}
	fmt.Fprintln(table)

	for i, s := range p.Cases[0].Steps {
		fmt.Fprintf(table, "  %s\t", s.Name)
		for _, c := range p.Cases {
			fmt.Fprintf(table, "%s\t", span(c.Steps[i].Hours))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}

	for _, g := range p.byWait() {
		fmt.Fprintf(w, "  at %s each step waits at last for\n", strings.Join(g.cases, ", "))
		fmt.Fprint(w, g.waits)
	}
	return nil
}

// group is several candidates whose steps wait for the same.
type group struct {
	cases []string
	waits string
}

// byWait returns the candidates in groups, in order.
func (p *Policy) byWait() (groups []group) {
	for _, c := range p.Cases {
		name, waits := fmt.Sprintf("%g %%", 100**c.Differences), c.waits()
		if n := len(groups); n > 0 && groups[n-1].waits == waits {
			groups[n-1].cases = append(groups[n-1].cases, name)
			continue
		}
		groups = append(groups, group{[]string{name}, waits})
	}
	return groups
}

// waits lists what the steps wait for. Steps that wait for the same have one line.
func (c *Case) waits() string {
	var b strings.Builder
	for i, s := range c.Steps {
		if i == 0 || s.WaitsFor != c.Steps[i-1].WaitsFor {
			fmt.Fprintf(&b, "    %s: %s\n", s.Name, s.WaitsFor)
		}
	}
	return b.String()
}

func span(hours *float64) string {
	if hours == nil {
		return "never"
	}
	return humanize.Span(time.Duration(*hours * float64(time.Hour)))
}
