package gate

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// ReactionsResult says what clients do under each side of a promoted policy: those of the holdback, for which the authoritative
// is still enforced, and the others. It decides nothing.
type ReactionsResult struct {
	// Hours is how many hours of the clock are counted, at most 24: those since the promotion whose next hour is over, too.
	Hours int64 `json:"hours"`
	// HeldBack are the clients of the holdback, and Others those of the candidate.
	HeldBack GroupReactions `json:"held_back"`
	Others   GroupReactions `json:"others"`
}

// GroupReactions are the counts of one group's clients.
type GroupReactions struct {
	// Clients is how many made a request. Sampled says that the group has more than are watched.
	Clients int64 `json:"clients"`
	Sampled bool  `json:"sampled"`
	// Denied is how many of them the enforced side denied, and GaveUp how many of these gave up at least once.
	Denied int64 `json:"denied"`
	GaveUp int64 `json:"gave_up"`
	// Denials are the requests that it denied, and Retries those of them that followed another one of the same client and minute.
	Denials int64 `json:"denials"`
	Retries int64 `json:"retries"`
}

// reacting is the reaction of one client.
type reacting struct {
	denied, gaveUp   bool
	denials, retries int64
}

// reactions counts what clients did after denials since the promotion; nil without a holdback, and as long as no hour
// counts. Before a promotion no key is held back from anything, and after it a client's silence would be the end of the stage.
func (j *judgement) reactions() *ReactionsResult {
	exposure := j.evidence.Exposure
	if !exposure.AllKeys {
		return nil
	}

	// A client has all of the next hour to come back, so the last hour that is over has no next one yet.
	from := max(exposure.Since.Unix()/divergence.SecondsPerHour, j.hour()-hoursADay-1)
	hours := map[int64]*divergence.Hour{}
	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; h.Unix >= from && h.Unix < j.hour() {
			hours[h.Unix] = h
		}
	}

	heldBack, others := groupOf(hours, divergence.CohortHeldBack), groupOf(hours, divergence.CohortOthers)
	if len(heldBack.clients)+len(others.clients) == 0 {
		return nil
	}
	r := &ReactionsResult{HeldBack: heldBack.result(&others), Others: others.result(&heldBack)}
	for unix := range hours {
		if hours[unix+1] != nil {
			r.Hours++
		}
	}
	return r
}

// group is the clients of a group below a bound, as in divergence.Clients.
type group struct {
	below   uint64
	clients map[uint64]reacting
}

// groupOf joins what the clients of a group did in some hours that follow each other. Below the least bound of all hours
// every client is known in each of them.
func groupOf(hours map[int64]*divergence.Hour, g divergence.Cohort) group {
	joined := group{clients: map[uint64]reacting{}}
	for _, h := range hours {
		if below := h.Of(g).Below; below != 0 && (joined.below == 0 || below < joined.below) {
			joined.below = below
		}
	}

	for unix, h := range hours {
		next := hours[unix+1]
		if next == nil {
			continue // the hour is not over, or no instance was there to see a client come back
		}
		for i := range h.Of(g).List {
			if r := &h.Of(g).List[i]; joined.below == 0 || r.Hash < joined.below {
				joined.add(r, next.Of(g))
			}
		}
	}
	return joined
}

// add counts a client's hour, with the reactions of the next one.
func (g *group) add(r *divergence.Reaction, next *divergence.Reactions) {
	c := g.clients[r.Hash]
	c.denied = c.denied || r.Denials > 0
	c.gaveUp = c.gaveUp || r.Silent() && next.Find(r.Hash) == nil
	c.denials += r.Denials
	c.retries += r.Retries()
	g.clients[r.Hash] = c
}

// result adds up the clients of a group. One that is in the other group, too, has changed between them with the holdback's
// percentage: it did not give up where it was before.
func (g *group) result(other *group) (sum GroupReactions) {
	sum.Sampled = g.below != 0

	// A client that was in both groups has answers of both sides, and tells nothing of either.
	for hash, c := range g.clients {
		if _, both := other.clients[hash]; both {
			continue
		}
		sum.Clients++
		sum.Denials += c.denials
		sum.Retries += c.retries
		if c.denied {
			sum.Denied++
		}
		if c.gaveUp {
			sum.GaveUp++
		}
	}
	return sum
}

// Share is a share, with the error of its sample at 95 % confidence; nil where there is nothing to have a share of.
type Share struct{ Value, Error float64 }

func shareOf(part, whole int64) *Share {
	if whole == 0 {
		return nil
	}
	h := harmed{part, whole, 1}
	return &Share{h.share(), h.margin()}
}

// DeniedShare is the share of the clients that were denied. The error is as of a sample also where all clients are
// counted: which of them are held back is chance.
func (g *GroupReactions) DeniedShare() *Share { return shareOf(g.Denied, g.Clients) }

// GaveUpShare is the share of the denied clients that gave up.
func (g *GroupReactions) GaveUpShare() *Share { return shareOf(g.GaveUp, g.Denied) }

// RetriesShare is the share of the denials that were retries. Its error is not known: denials of one client come together.
func (g *GroupReactions) RetriesShare() *float64 { return fraction(g.Retries, g.Denials) }

// RetriesEach is the mean number of retries of a denied client; nil without any.
func (g *GroupReactions) RetriesEach() *float64 { return fraction(g.Retries, g.Denied) }

// String writes a share of people's clients; "-" for nil.
func (s *Share) String() string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s +- %.2g", humanize.Percent(s.Value), 100*s.Error)
}

// ReactionsRow is a group as people read it.
type ReactionsRow struct{ Enforced, Clients, Denied, Retries, GaveUp string }

// Rows are the two groups, the authoritative's first.
func (r *ReactionsResult) Rows() []ReactionsRow {
	return []ReactionsRow{r.HeldBack.row("authoritative, held back"), r.Others.row("candidate")}
}

func (g *GroupReactions) row(enforced string) ReactionsRow {
	retries := "-"
	if each := g.RetriesEach(); each != nil {
		retries = fmt.Sprintf("%.3g", math.Round(*each*100)/100)
	}
	clients := humanize.Grouped(g.Clients)
	if g.Sampled {
		clients += " (a sample)"
	}
	return ReactionsRow{enforced, clients, g.DeniedShare().String(), retries, g.GaveUpShare().String()}
}

// Title names the clients and the time that the numbers are of.
func (r *ReactionsResult) Title() string {
	return fmt.Sprintf("what clients do under each side, by %s since the promotion", humanize.Counted(r.Hours, "hour"))
}

// WriteText writes the table for a terminal; nothing without a holdback.
func (r *ReactionsResult) WriteText(w io.Writer) error {
	if r == nil {
		return nil
	}

	fmt.Fprintf(w, "  %s\n", r.Title())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "    enforced\tclients\tdenied\tretries per denied client\tgave up, of the denied\t\n")
	for _, row := range r.Rows() {
		fmt.Fprintf(table, "    %s\t%s\t%s\t%s\t%s\t\n", row.Enforced, row.Clients, row.Denied, row.Retries, row.GaveUp)
	}
	return table.Flush()
}
