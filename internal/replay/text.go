package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// WriteText writes the report as text for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder

	b.WriteString(humanize.Counted(r.Requests, "request"))
	if r.First != nil {
		const stamp = "2006-01-02 15:04:05"
		fmt.Fprintf(&b, " from %s to %s UTC (%s)", r.First.Format(stamp), r.Last.Format(stamp), humanize.Span(r.Last.Sub(*r.First)))
	}

	if r.SkippedLines > 0 {
		fmt.Fprintf(&b, ", %s skipped", humanize.Counted(r.SkippedLines, "line"))
	}
	b.WriteString("\n")

	for i := range r.Policies {
		r.Policies[i].writeText(&b)
	}

	_, err := io.WriteString(w, b.String())
	return err
}

func (p *PolicyReport) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "\npolicy %s, %s\n", p.Name, humanize.Counted(p.Keys, "key"))
	if p.Sweep != nil {
		p.Sweep.writeText(b, p)
		return
	}
	fmt.Fprintf(b, "  authoritative  %s\n  candidate      %s\n", p.Authoritative, p.Candidate)
	p.Observed.writeText(b)
	b.WriteByte('\n')

	status.WriteSummary(b, &p.Summary) // writing to a strings.Builder cannot fail
	status.WriteMembers(b, p.Members)
	for _, text := range []string{p.NotCompared(), p.BlindText()} {
		if text != "" {
			fmt.Fprintf(b, "  %s\n", text)
		}
	}
	b.WriteByte('\n')

	p.Gate.WriteText(b)
	b.WriteByte('\n')
	p.Course.WriteText(b)
	b.WriteByte('\n')
	p.Proposed.WriteText(b)
	if text := p.Hurt.String(); text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}

	p.Clients.WriteText(b, "in the log") // writing to a strings.Builder cannot fail

	p.writeCharts(b)
	status.WriteHarmed(b, &p.Summary)
}

func (p *PolicyReport) writeCharts(b *strings.Builder) {
	if p.NewlyDenied+p.NewlyAllowed == 0 {
		return
	}

	fmt.Fprintf(b, "\nover time, %s a column\n", humanize.Span(p.timeline.Span()))
	for _, o := range []divergence.Outcome{divergence.NewlyDenied, divergence.NewlyAllowed} {
		counts, peak := p.timeline.counts(o)
		name := strings.ReplaceAll(o.String(), "_", " ")
		fmt.Fprintf(b, "  %-14s%s  peak %s\n", name, bars(counts[:], peak), humanize.Grouped(peak))
	}
}

// bars draws a column per count. A count above 0 is at least an eighth of a line high,
// so that a single request can be seen beside a large peak.
func bars(counts []int64, peak int64) string {
	levels := []rune("▁▂▃▄▅▆▇█")

	var b strings.Builder
	for _, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}

		level := min(7, int(float64(n)/float64(peak)*8))
		b.WriteRune(levels[level])
	}

	return "|" + b.String() + "|"
}
