package replay

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

const (
	// activeRequests is how many requests make a client active: of two requests a client that loses one loses half.
	activeRequests = 50
	worstShown     = 5
)

// losses are the shares for which clients are counted.
var losses = [...]float64{0.05, 0.1, 0.2, 0.5}

// ClientsResult says how many clients lose how much of their own requests over the log. A replay remembers every key, so
// nothing is estimated.
type ClientsResult struct {
	// Active is how many clients made at least OfAtLeast requests.
	Active    int64 `json:"active"`
	OfAtLeast int64 `json:"of_at_least"`
	// Losing are the clients that lose at least a share of what the authoritative allows them.
	Losing []ClientsLosing `json:"losing"`
	// Worst are the clients that lose most, of those that have a name.
	Worst []ClientLosing `json:"worst"`
}

// ClientsLosing is a number of clients, as a share of the active ones.
type ClientsLosing struct {
	AtLeast float64 `json:"at_least"`
	Clients int64   `json:"clients"`
	Share   float64 `json:"share"`
}

// ClientLosing is what one client loses: what the authoritative allows it and the candidate denies.
type ClientLosing struct {
	Key     string  `json:"key"`
	Allowed int64   `json:"allowed"`
	Lost    int64   `json:"lost"`
	Share   float64 `json:"share"`
	// Cause explains most of the loss, and CauseShare how much of it; "" where no cause is known.
	Cause      string  `json:"cause"`
	CauseShare float64 `json:"cause_share"`
}

// Loses reports whether any active client loses anything that is worth a table.
func (r *ClientsResult) Loses() bool { return r != nil && r.Losing[0].Clients > 0 }

// Title names the clients that the numbers are of.
func (r *ClientsResult) Title() string {
	return fmt.Sprintf("%s with %d requests or more in the log", humanize.Counted(r.Active, "client"), r.OfAtLeast)
}

// CauseText says what explains most of the loss; "" if that is not known.
func (l *ClientLosing) CauseText() string {
	if l.Cause == "" {
		return ""
	}
	return fmt.Sprintf(", probably %s (%s of it)", humanize.Visible(l.Cause), humanize.Percent(l.CauseShare))
}

// write writes the table for a terminal, where a client loses something.
func (r *ClientsResult) write(b *strings.Builder) {
	if !r.Loses() {
		return
	}

	fmt.Fprintf(b, "  %s\n", r.Title())
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "    lose at least\tclients\tshare\t\n")
	for _, l := range r.Losing {
		fmt.Fprintf(table, "    %s\t%s\t%s\t\n", humanize.Percent(l.AtLeast), humanize.Grouped(l.Clients), humanize.Percent(l.Share))
	}
	table.Flush() // a strings.Builder never fails
	for i := range r.Worst {
		c := &r.Worst[i]
		fmt.Fprintf(b, "    %s loses %s of %s allowed (%s)%s\n", humanize.Printable(c.Key), humanize.Grouped(c.Lost),
			humanize.Grouped(c.Allowed), humanize.Percent(c.Share), c.CauseText())
	}
}
