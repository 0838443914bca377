package replay

import (
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Remedy is a change that would lessen a harm.
type Remedy struct {
	Harm  string  `json:"harm"`  // newly_denied or newly_allowed
	Cause string  `json:"cause"` // "" for what is of no one cause
	Share float64 `json:"share"` // of the harm
	Text  string  `json:"text"`
	// Sweep is the value of --sweep that looks for the number; "" where there is none to look for.
	Sweep string `json:"sweep"`
}

// Bounds of remedies. A cause with less of a harm than leastCause is not worth a change.
const (
	leastCause = 0.1
	sweepSteps = 8 // roughly as many candidates as a remedy proposes to try
	fewKeys    = 3 // that have half of a harm
)

// remedies returns what would help against newly denied, and against newly allowed where the gate does not accept it.
// losers are all keys that are newly denied, the worst first, however many of them the report names.
func (r *run) remedies(p *PolicyReport, losers []KeyHarm) []Remedy {
	list := []Remedy{} // not nil: an empty list is [] in JSON
	if p.NewlyDenied > 0 {
		list = append(list, concentrated(p, losers)...)
		list = append(list, ofCauses(divergence.NewlyDenied, &r.causes.denied, p.NewlyDenied)...)
	}

	cfg := r.cfg.Gate.WithDefaults()
	above := func(ratio *float64, threshold float64) bool { return ratio != nil && *ratio >= threshold }
	if above(p.Ratios.NewlyAllowed, cfg.NewlyAllowed) || above(p.Ratios.ExtraLoad, cfg.ExtraLoad) {
		list = append(list, ofCauses(divergence.NewlyAllowed, &r.causes.allowed, p.NewlyAllowed)...)
	}
	return list
}

// concentrated says that a few of many keys have half of the newly denied requests: another limit for all of them is not needed.
func concentrated(p *PolicyReport, losers []KeyHarm) []Remedy {
	var sum int64
	for i := range losers[:min(fewKeys, len(losers))] {
		sum += losers[i].Count
		if 2*sum < p.NewlyDenied || p.Keys < 10*fewKeys {
			continue
		}
		share := float64(sum) / float64(p.NewlyDenied)
		return []Remedy{{
			Harm: divergence.NewlyDenied.String(), Share: share,
			Text: fmt.Sprintf("%s of it %s: ask whether a limit of their own, or none, suits them", humanize.Percent(share), have(i+1)),
		}}
	}
	return nil
}

func have(keys int) string {
	if keys == 1 {
		return "is of the key that is newly denied most"
	}
	return fmt.Sprintf("is of the %d keys that are newly denied most", keys)
}

// ofCauses has a remedy for each cause that much of a harm has, the most frequent first.
func ofCauses(harm divergence.Outcome, counts *[len(divergence.AllCauses)]causeCount, of int64) (list []Remedy) {
	for i := range counts {
		n, share := &counts[i], float64(counts[i].count)/float64(of)
		if share < leastCause {
			continue
		}

		one := Remedy{Harm: harm.String(), Cause: divergence.Cause(i).String(), Share: share}
		if harm == divergence.NewlyDenied {
			one.Text, one.Sweep = n.lessDenied(divergence.Cause(i))
		} else {
			one.Text, one.Sweep = n.lessAllowed(divergence.Cause(i))
		}
		if one.Text == "" {
			continue
		}

		// A rare remedy stands behind a frequent one.
		at := len(list)
		for at > 0 && list[at-1].Share < share {
			at--
		}
		list = append(list[:at], append([]Remedy{one}, list[at:]...)...)
	}
	return list
}

// lessDenied says by which number of the candidate fewer requests would be newly denied.
func (n *causeCount) lessDenied(cause divergence.Cause) (text, sweep string) {
	a, c := &n.limits[algorithms.Authoritative], &n.limits[algorithms.Candidate]
	bucket := n.shapes[algorithms.Candidate] == algorithms.Bucket
	switch {
	case cause == divergence.BurstShape && bucket:
		return "a larger burst of the candidate: it allows less at once than the authoritative",
			n.between(NumberBurst, c.Capacity(), a.Capacity())

	case cause == divergence.BurstShape:
		return "a higher limit of the candidate: within a window a bucket allows its burst and what it refills",
			n.between(NumberLimit, c.Requests, converted(a, c)+a.Capacity())

	case cause == divergence.LimitValue:
		return "a higher limit of the candidate", n.between(NumberLimit, c.Requests, converted(a, c))

	// A window that is aligned allows up to twice its limit around its end.
	case cause == divergence.WindowBoundary && bucket:
		return "a larger burst of the candidate: it still counts requests of before a window's end",
			n.between(NumberBurst, c.Capacity(), 2*c.Capacity())

	case cause == divergence.WindowBoundary:
		return "a higher limit of the candidate: it still counts requests of before a window's end",
			n.between(NumberLimit, c.Requests, 2*c.Requests)
	}
	return "", ""
}

// lessAllowed says by which number of the candidate fewer requests would be newly allowed.
func (n *causeCount) lessAllowed(cause divergence.Cause) (text, sweep string) {
	a, c := &n.limits[algorithms.Authoritative], &n.limits[algorithms.Candidate]
	switch {
	case cause == divergence.BurstShape && n.shapes[algorithms.Candidate] == algorithms.Bucket:
		return "a smaller burst of the candidate, which newly denies more",
			n.between(NumberBurst, max(1, c.Capacity()/4), c.Capacity())

	case cause == divergence.LimitValue:
		return "a lower limit of the candidate, which newly denies more", n.between(NumberLimit, max(1, converted(a, c)), c.Requests)

	case cause == divergence.WindowBoundary:
		return "no number of the candidate: its windows end at other instants, and a lower limit newly denies instead", ""
	}
	return "", ""
}

// converted returns the limit of the authoritative for the window of the candidate.
func converted(a, c *algorithms.Limit) int64 {
	if a.Window <= 0 {
		return a.Requests
	}
	return int64(float64(a.Requests) * float64(c.Window) / float64(a.Window))
}

// between is the value of --sweep for some numbers; "" where the limits vary, so that one number is not what to change.
func (n *causeCount) between(number string, from, to int64) string {
	if n.varied || from <= 0 || to <= from {
		return ""
	}

	// The step is of the series 1-2-5, which people read at a glance.
	step := int64(1)
	for i := 0; (to-from)/step > sweepSteps; i++ {
		step = [...]int64{2, 5, 10}[i%3] * pow10(i/3)
	}
	return fmt.Sprintf("%s=%d..%d:%d", number, from, to, step)
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

// writeRemedies writes what would help, each with the flag that looks for its number on a line of its own, to be pasted.
func writeRemedies(b *strings.Builder, list []Remedy) {
	if len(list) == 0 {
		return
	}

	b.WriteString("\nwhat would help\n")
	for i := range list {
		fmt.Fprintf(b, "  %s\n", list[i].Sentence())
		if sweep := list[i].Sweep; sweep != "" {
			fmt.Fprintf(b, "    --sweep %s\n", sweep)
		}
	}
}

// Sentence names the harm, and what would help.
func (m *Remedy) Sentence() string {
	harm := strings.ReplaceAll(m.Harm, "_", " ")
	if m.Cause == "" {
		return harm + ": " + m.Text
	}
	return fmt.Sprintf("%s, %s by %s: %s", harm, humanize.Percent(m.Share), m.Cause, m.Text)
}
