package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
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

// clients counts the keys of the whole log; nil if there is none.
func (r *run) clients() *ClientsResult {
	if len(r.keys) == 0 {
		return nil
	}

	result := &ClientsResult{OfAtLeast: activeRequests, Worst: []ClientLosing{}}
	var losing [len(losses)]int64
	var losers []int
	for id := range r.keys {
		k := &r.keys[id]
		if k.allowed+k.denied < activeRequests {
			continue
		}
		result.Active++
		if k.newlyDenied == 0 {
			continue
		}
		losers = append(losers, id)
		for i, share := range losses {
			if float64(k.newlyDenied) >= share*float64(k.allowed) {
				losing[i]++
			}
		}
	}

	for i, share := range losses {
		result.Losing = append(result.Losing, ClientsLosing{share, losing[i], float64(losing[i]) / float64(max(1, result.Active))})
	}
	slices.SortFunc(losers, func(a, b int) int {
		x, y := &r.keys[a], &r.keys[b]
		return cmp.Or(cmp.Compare(y.loss(), x.loss()), cmp.Compare(y.newlyDenied, x.newlyDenied), cmp.Compare(a, b))
	})
	for _, id := range losers[:min(worstShown, len(losers))] {
		if r.events.keys[id] != "" {
			result.Worst = append(result.Worst, r.losing(uint32(id)))
		}
	}
	return result
}

// losing says what a key loses, and why.
func (r *run) losing(id uint32) ClientLosing {
	k := &r.keys[id]
	one := ClientLosing{Key: r.events.keys[id], Allowed: k.allowed, Lost: k.newlyDenied, Share: k.loss()}

	var most evidence.Cause
	var sum int64
	causes := r.causes.clients[id]
	if causes == nil {
		return one
	}
	for cause, n := range causes {
		sum += n
		if n > causes[most] {
			most = evidence.Cause(cause)
		}
	}
	one.Cause, one.CauseShare = most.String(), float64(causes[most])/float64(sum)
	return one
}

// loss returns the share that is lost of what the authoritative allows the key.
func (k *keyTally) loss() float64 { return float64(k.newlyDenied) / float64(max(1, k.allowed)) }

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
