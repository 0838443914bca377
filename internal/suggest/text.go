package suggest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

const width = 80

// WriteText writes the report for people, in 80 columns.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s", humanize.Counted(r.Requests, "request"), humanize.Counted(r.Keys, "client"))
	if r.First != nil {
		fmt.Fprintf(&b, "\n%s to %s UTC", r.First.Format(time.DateTime), r.Last.Format(time.DateTime))
	}
	b.WriteString("\n" + humanize.Wrap(r.Rule(), width) + "\n")

	if len(r.Proposals) == 0 {
		b.WriteString("\nno proposal: the log is of less than a second\n")
		_, err := io.WriteString(out, b.String())
		return err
	}

	first := &r.Proposals[0]
	fmt.Fprintf(&b, "\n                                   clients       of the    requests    of\n"+
		"    window      limit      burst   touched       others      denied   all\n")
	for _, p := range r.ByWindow() {
		mark := " "
		if p == first {
			mark = ">"
		}
		fmt.Fprintf(&b, "  %s %6s %10s %10s %9s %12s %11s %5s\n", mark, p.Window, humanize.Grouped(p.Limit), humanize.Grouped(p.Burst),
			humanize.Grouped(p.TouchedKeys), humanize.Grouped(p.TouchedOthers), humanize.Grouped(p.TouchedRequests), r.Share(p))
	}
	b.WriteString("\n" + humanize.Wrap(r.Choice(), width) + "\n")

	if len(first.Top) > 0 {
		fmt.Fprintf(&b, "\n%s\n      denied          of  client\n", r.Whom())
		for _, top := range first.Top {
			fmt.Fprintf(&b, "  %10s  %10s  %s\n", humanize.Grouped(top.Count), humanize.Grouped(top.Requests), humanize.Printable(top.Key))
		}
	}

	b.WriteString("\nwhat a log does not say\n")
	for _, text := range r.Unknown {
		b.WriteString(humanize.Wrap("* "+text, width) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Rule says what the proposals are held to.
func (r *Report) Rule() string {
	text := fmt.Sprintf("at most %s of the clients are touched, and of their requests", humanize.Percent(r.Touch))
	if r.SetApart > 0 {
		text += fmt.Sprintf("; %s far above all others and not counted", are(r.SetApart))
	}
	return text
}

// Choice says why the first proposal is the first.
func (r *Report) Choice() string {
	p := &r.Proposals[0]
	return fmt.Sprintf("Begin with %s, the shortest window that denies nearly as much as any: %s", p.Window, p.ShortForm())
}

// Whom is the heading of the clients that the first proposal touches.
func (r *Report) Whom() string {
	p := &r.Proposals[0]
	text := "whom it would touch"
	if more := p.TouchedKeys - int64(len(p.Top)); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// ShortForm is the proposal as a flag takes it.
func (p *Proposal) ShortForm() string {
	return fmt.Sprintf("%s:%d/%s:burst=%d", p.Algorithm, p.Limit, p.Window, p.Burst)
}

// Share is that of the requests which a proposal denies.
func (r *Report) Share(p *Proposal) string {
	return strings.ReplaceAll(humanize.Percent(float64(p.TouchedRequests)/float64(r.Requests)), " ", "")
}
