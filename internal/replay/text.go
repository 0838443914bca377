package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
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

	_, err := io.WriteString(w, humanize.Wrap(b.String(), textWidth))
	return err
}

// textWidth is the width of a terminal as it is opened.
const textWidth = 80

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
	p.Denied.writeText(b)
	status.WriteCauses(b, "newly denied", p.CausesNewlyDenied)
	status.WriteCauses(b, "newly allowed", p.CausesNewlyAllowed)
	if text := p.NotCompared(); text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}
	p.writeHurt(b)
	b.WriteByte('\n')

	p.Gate.WriteText(b)
	if text := p.Walked(); text != "" {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	writeHarmed(b, "newly denied", p.TopNewlyDenied)
	writeHarmed(b, "newly allowed", p.TopNewlyAllowed)
}

// writeHurt says which keys lose how much of their own requests.
func (p *PolicyReport) writeHurt(b *strings.Builder) {
	if text := p.Hurt.String(); text != "" {
		fmt.Fprintf(b, "\nwhom it would hurt\n  %s\n", text)
		p.Clients.write(b)
	}
}
