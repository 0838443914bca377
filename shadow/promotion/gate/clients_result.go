package gate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// ClientsResult says how many clients lose how much of their own requests over a day. It is shown
// without a rule, too.
type ClientsResult struct {
	// Active is how many clients made at least OfAtLeast requests.
	Active    int64 `json:"active"`
	OfAtLeast int64 `json:"of_at_least"`
	// Sampled says that the numbers are estimates, from the clients of least hash.
	Sampled bool `json:"sampled"`
	// Losing are the clients that lose at least a share of what the authoritative allows them.
	Losing []ClientsLosing `json:"losing"`
	// Worst are the clients that lose most, of those whose name is known.
	Worst []ClientLosing `json:"worst"`
	// Protected is how many protected keys were seen. ProtectedLeftOut says that there are more
	// than are counted.
	Protected        int64 `json:"protected"`
	ProtectedLeftOut bool  `json:"protected_left_out"`
}

// ClientsLosing is a number of clients, as a share of the active ones, to within Error.
type ClientsLosing struct {
	AtLeast float64 `json:"at_least"`
	Clients int64   `json:"clients"`
	Share   float64 `json:"share"`
	Error   float64 `json:"error"`
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

// losses are the shares for which clients are counted.
var losses = [...]float64{0.05, 0.1, 0.2, 0.5}

// UsuallyActive is how many requests make a client active where no rule says otherwise.
const UsuallyActive = 50

const worstShown = 5

// clientsResult counts the clients of the last 24 hours; nil if none was seen.
func (j *judgement) clientsResult() *ClientsResult {
	sum := j.clientsBetween(j.hour()-hoursADay+1, j.hour())
	least := int64(UsuallyActive)
	if rule := j.cfg.ClientHarm; rule.Declared() {
		least = rule.OfAtLeast
	}
	r := ClientsOf(&sum, least)

	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; r != nil && h.Unix > j.hour()-hoursADay {
			r.Protected = max(r.Protected, int64(len(h.Protected.List)))
			r.ProtectedLeftOut = r.ProtectedLeftOut || h.Protected.Below != 0
		}
	}
	return r
}

// ClientsOf counts clients, of which those with enough requests are active; nil if there is none.
func ClientsOf(sum *divergence.Clients, ofAtLeast int64) *ClientsResult {
	if len(sum.List) == 0 {
		return nil
	}

	h := harmed{below: sum.Below}
	var losing [len(losses)]int64
	for i := range sum.List {
		n := sum.List[i].Total()
		if n.Requests < ofAtLeast {
			continue
		}
		h.active++
		for k, share := range losses {
			if n.Loses(share) {
				losing[k]++
			}
		}
	}

	r := &ClientsResult{Active: h.all(h.active), OfAtLeast: ofAtLeast, Sampled: sum.Below != 0, Worst: []ClientLosing{}}
	for k, share := range losses {
		h.clients = losing[k]
		r.Losing = append(r.Losing, ClientsLosing{share, h.all(h.clients), h.share(), h.margin()})
	}
	for _, c := range sum.Worst(worstShown, ofAtLeast) {
		if n := c.Total(); c.Name != "" {
			one := ClientLosing{Key: c.Name, Allowed: n.Allowed, Lost: n.Lost, Share: float64(n.Lost) / float64(max(1, n.Allowed))}
			if cause, of := c.Causes.Most(); of > 0 {
				one.Cause, one.CauseShare = cause.String(), of
			}
			r.Worst = append(r.Worst, one)
		}
	}
	return r
}

// Loses reports whether any active client loses anything that is worth a table.
func (r *ClientsResult) Loses() bool { return r != nil && r.Losing[0].Clients > 0 }

// Over names the time and the clients that the numbers are of; of is the time.
func (r *ClientsResult) Over(of string) string {
	estimated := ""
	if r.Sampled {
		estimated = ", estimated from a sample"
	}
	return fmt.Sprintf("%s with %d requests or more %s%s", humanize.Counted(r.Active, "client"), r.OfAtLeast, of, estimated)
}

// ShareText writes the share of the active clients, with its error.
func (l *ClientsLosing) ShareText() string {
	if l.Error == 0 {
		return humanize.Percent(l.Share)
	}
	return fmt.Sprintf("%s +- %.2g", humanize.Percent(l.Share), 100*l.Error)
}

// ProtectedText says how many protected keys are counted; "" without any.
func (r *ClientsResult) ProtectedText() string {
	switch {
	case r == nil || r.Protected == 0:
		return ""
	case r.ProtectedLeftOut:
		return fmt.Sprintf("of the protected keys %s are counted, those of least hash, and no others: protect fewer keys",
			humanize.Grouped(divergence.ProtectedClients))
	}
	return humanize.Counted(r.Protected, "protected key") + " seen in an hour"
}

// CauseText says what explains most of the loss; "" if that is not known.
func (l *ClientLosing) CauseText() string {
	if l.Cause == "" {
		return ""
	}
	return fmt.Sprintf(", probably %s (%s of it)", humanize.Visible(l.Cause), humanize.Percent(l.CauseShare))
}

// WriteText writes the table for a terminal, where a client loses something.
func (r *ClientsResult) WriteText(w io.Writer, of string) error {
	if !r.Loses() {
		return nil
	}

	fmt.Fprintf(w, "  %s\n", r.Over(of))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "    lose at least\tclients\tshare\t\n")
	for i := range r.Losing {
		l := &r.Losing[i]
		fmt.Fprintf(table, "    %s\t%s\t%s\t\n", humanize.Percent(l.AtLeast), humanize.Grouped(l.Clients), l.ShareText())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range r.Worst {
		fmt.Fprintf(w, "    %s loses %s of %s (%s)%s\n", humanize.Printable(c.Key), humanize.Grouped(c.Lost),
			humanize.Grouped(c.Allowed), humanize.Percent(c.Share), c.CauseText())
	}
	return nil
}
