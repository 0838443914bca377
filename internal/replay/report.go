package replay

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
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

func (r *run) hurt() (h Hurt) {
	for id, k := range r.keys {
		if k.newlyDenied == 0 {
			continue
		}
		h.Keys++
		if loses := float64(k.newlyDenied) / float64(k.allowed); k.allowed >= leastAllowed && loses > h.Loses {
			h.Worst, h.Loses = r.events.keys[id], loses
		}
	}
	if h.Keys > 0 {
		h.Share = float64(h.Keys) / float64(len(r.keys))
	}
	return h
}

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

func (r *run) report() *Report {
	p := PolicyReport{
		Name:          r.cfg.Policy,
		Authoritative: r.describe(algorithms.Authoritative),
		Candidate:     r.describe(algorithms.Candidate),
		Summary:       r.summary(),
	}
	r.assess(&p)

	p.TopNewlyDenied, p.TopNewlyAllowed = shown(r.harmed((*keyTally).losses)), shown(r.harmed((*keyTally).gains))
	p.CausesNewlyDenied, p.CausesNewlyAllowed = status.CausesOf(r.causes.denied[:]), status.CausesOf(r.causes.allowed[:])
	p.Denied = r.deniedBy()
	p.Hurt = r.hurt()
	p.Observed = r.agreement()
	p.Clients = r.clients()

	report := &Report{Requests: int64(r.events.Len()), Policies: []PolicyReport{p}}
	if list := &r.events.list; list.len() > 0 {
		first, last := time.UnixMicro(list.at(0).at).UTC(), time.UnixMicro(list.last().at).UTC()
		report.First, report.Last = &first, &last
	}

	return report
}

// summary counts exactly: a replay has seen every key, where the ledger's counts of keys are estimates.
func (r *run) summary() status.Summary {
	s := status.Summarize(r.total)
	s.AddCost(r.total, (&evidence.History{Minutes: r.minutes}).Extra())
	s.Keys = int64(len(r.events.keys))
	if r.first {
		s.Ratios.ExtraLoad = nil
	}

	losers, winners := r.harmed((*keyTally).losses), r.harmed((*keyTally).gains)
	s.KeysNewlyDenied, s.KeysNewlyAllowed = int64(len(losers)), int64(len(winners))
	s.TopNewlyDenied, s.TopNewlyAllowed = countsOf(shown(losers)), countsOf(shown(winners))
	return s
}

// describe returns the text of a side: the configured one, or its short form.
func (r *run) describe(role algorithms.Role) string {
	return cmp.Or(r.cfg.Texts[role], shortForm(r.cfg.Sides[role]))
}

func shortForm(s algorithms.Side) string {
	if !s.Present() {
		return "none"
	}
	return s.Algorithm.Name() + ":" + s.Limit.String()
}
