package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// Report is the result of a replay. Its JSON form is the command line's contract.
type Report struct {
	Requests     int64      `json:"requests"`
	SkippedLines int64      `json:"skipped_lines"`
	First        *time.Time `json:"first"` // nil without requests
	Last         *time.Time `json:"last"`
	// Warnings say what of the log looks wrong.
	Warnings []string       `json:"warnings"`
	Policies []PolicyReport `json:"policies"`
}

// PolicyReport is the part of one policy.
type PolicyReport struct {
	Name          string `json:"name"`
	Authoritative string `json:"authoritative"` // in the short form
	Candidate     string `json:"candidate"`
	status.Summary
	// TopNewlyDenied and TopNewlyAllowed are those of the Summary, with what else the replay knows of their keys.
	TopNewlyDenied  []KeyHarm `json:"top_newly_denied"`
	TopNewlyAllowed []KeyHarm `json:"top_newly_allowed"`
	// Causes of the newly denied and the newly allowed, the most frequent first.
	CausesNewlyDenied  []status.Cause `json:"causes_newly_denied"`
	CausesNewlyAllowed []status.Cause `json:"causes_newly_allowed"`
	// Denied is what each side denies, before and after.
	Denied Denials     `json:"denied"`
	Gate   gate.Result `json:"gate"`
	// PassedAt is when the first step would have been allowed, PromotedAt when the candidate would have been promoted, had each step
	// been taken as soon as its conditions were met; nil if never.
	PassedAt   *time.Time `json:"passed_at"`
	PromotedAt *time.Time `json:"promoted_at"`
	firstStep  string
	Hurt       Hurt `json:"hurt"`
	// Clients are all keys of the log, by what each would lose over all of it; nil without any.
	Clients *ClientsResult `json:"clients"`
	// Observed compares the authoritative with what the log says, where that is asked for.
	Observed *Agreement `json:"observed,omitempty"`
	// Sweep compares other candidates, where they are asked for.
	Sweep *SweepReport `json:"sweep,omitempty"`
}

// Hurt says whom newly denied would hurt: how many keys, and which one loses the largest share of what the authoritative
// allows it, of the keys of which it allows 20 or more.
type Hurt struct {
	Keys  int64   `json:"keys"`
	Share float64 `json:"share"` // of all keys
	Worst string  `json:"worst_key"`
	Loses float64 `json:"worst_share"`
}

// leastAllowed is how many requests a key must be allowed before its share says anything.
const leastAllowed = 20

// String is a sentence for a terminal; "" if no key is hurt.
func (h *Hurt) String() string {
	if h.Keys == 0 {
		return ""
	}
	text := fmt.Sprintf("The candidate takes requests from %s, %s of all", humanize.Counted(h.Keys, "key"), humanize.Percent(h.Share))
	if h.Worst != "" {
		text += fmt.Sprintf("; %s loses most of its own, %s", humanize.Printable(h.Worst), humanize.Percent(h.Loses))
	}
	return text + "."
}

// Join adds the policies of another report on the same log.
func (r *Report) Join(other *Report) {
	r.Policies = append(r.Policies, other.Policies...)

	if r.First == nil || other.First != nil && other.First.Before(*r.First) {
		r.First = other.First
	}
	if r.Last == nil || other.Last != nil && other.Last.After(*r.Last) {
		r.Last = other.Last
	}
}

// WriteText writes the report as text for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	b := humanize.PageFor(w)
	b.WriteString(humanize.Counted(r.Requests, "request"))
	if r.First != nil {
		const stamp = "2006-01-02 15:04:05"
		fmt.Fprintf(b, " from %s to %s UTC (%s)", r.First.Format(stamp), r.Last.Format(stamp), humanize.Span(r.Last.Sub(*r.First)))
	}

	if r.SkippedLines > 0 {
		fmt.Fprintf(b, ", %s skipped", humanize.Counted(r.SkippedLines, "line"))
	}
	b.WriteString("\n")

	for i := range r.Policies {
		r.Policies[i].writeText(b)
	}

	return b.Show(w)
}

// WriteHTML writes the report as one page that needs no other file, runs no script and loads nothing. Its parts are those of the status
// page. Keys stand in it as in the text: in clear, with control characters as escapes.
func (r *Report) WriteHTML(w io.Writer) error {
	v := pageView{Report: r, Style: status.Style, Security: status.FilePolicy}
	for i := range r.Policies {
		v.Policies = append(v.Policies, policyView{&r.Policies[i]})
	}
	if err := pageTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("replay: write the page: %w", err)
	}
	return nil
}

// Walked says when the candidate would have been enforced, in one line and in UTC; "" where no step was asked for.
func (p *PolicyReport) Walked() string {
	const stamp = "2006-01-02 15:04"
	switch {
	case p.firstStep == "":
		return ""
	case p.PassedAt == nil:
		return "would have been: in shadow until the end of the log"
	case p.PromotedAt == nil:
		return fmt.Sprintf("would have been: %s at %s, and not promoted", p.firstStep, p.PassedAt.Format(stamp))
	}
	return fmt.Sprintf("would have been: %s at %s, promoted at %s", p.firstStep, p.PassedAt.Format(stamp), p.PromotedAt.Format(stamp))
}

func (p *PolicyReport) writeText(page *humanize.Page) {
	b := &page.Builder
	fmt.Fprintf(b, "\npolicy %s, %s\n", p.Name, humanize.Counted(p.Keys, "key"))
	if p.Sweep != nil {
		p.Sweep.writeText(page, p)
		return
	}
	fmt.Fprintf(b, "  authoritative  %s\n  candidate      %s\n", p.Authoritative, p.Candidate)
	p.Observed.writeText(b)
	b.WriteByte('\n')

	status.WriteSummary(page, &p.Summary) // a page never fails
	p.Denied.writeText(b)
	status.WriteCauses(b, "newly denied", p.CausesNewlyDenied)
	status.WriteCauses(b, "newly allowed", p.CausesNewlyAllowed)
	if text := p.NotCompared(); text != "" {
		fmt.Fprintf(b, "  %s\n", text)
	}
	p.writeHurt(b)
	b.WriteByte('\n')

	p.Gate.WriteText(page)
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
