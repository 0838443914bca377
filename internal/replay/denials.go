package replay

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// Denials are what each side denies of the requests that were compared: before and after a promotion. A declared
// difference is in them, because the client is denied all the same.
type Denials struct {
	Authoritative SideDenials `json:"authoritative"`
	Candidate     SideDenials `json:"candidate"`
	// LargestCost is the largest cost of all requests. A request that costs more than a limiter allows at once never passes it.
	LargestCost int64 `json:"largest_cost"`
}

// SideDenials are the denials of one side.
type SideDenials struct {
	Requests int64 `json:"requests"`
	// Share is a fraction of all requests to which both sides have an answer; nil without any.
	Share *float64 `json:"share"`
	Keys  int64    `json:"keys"`
	// Never are the denied requests that would be denied however long the client waits.
	Never int64 `json:"never"`
}

// KeyHarm is a key with its share of a harm, and what each side denies of all its requests.
type KeyHarm struct {
	evidence.KeyCount
	Requests     int64 `json:"requests"`
	DeniedBefore int64 `json:"denied_before"` // by the authoritative
	DeniedAfter  int64 `json:"denied_after"`  // by the candidate
}

// shown returns the part of a list of keys that a report names, [] for an empty one. It is a copy: there may be millions of keys.
func shown(list []KeyHarm) []KeyHarm {
	return append([]KeyHarm{}, list[:min(len(list), status.TopKeys)]...)
}

func countsOf(list []KeyHarm) []evidence.KeyCount {
	counts := make([]evidence.KeyCount, len(list))
	for i := range list {
		counts[i] = list[i].KeyCount
	}
	return counts
}

// writeText says how much is denied before and after.
func (d *Denials) writeText(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct {
		name string
		*SideDenials
	}{{"denied before", &d.Authoritative}, {"denied after", &d.Candidate}} {
		if row.Share != nil {
			fmt.Fprintf(table, "  %s\t%s\t  %s of all requests, %s\n", row.name, humanize.Grouped(row.Requests),
				humanize.Percent(*row.Share), humanize.Counted(row.Keys, "key"))
		}
	}
	table.Flush() // writing to a strings.Builder cannot fail

	for _, text := range d.NeverTexts() {
		fmt.Fprintf(b, "  %s\n", text)
	}
}

// NeverTexts has a sentence for each side that some requests can never pass.
func (d *Denials) NeverTexts() (list []string) {
	for _, side := range []struct {
		role algorithms.Role
		*SideDenials
	}{{algorithms.Authoritative, &d.Authoritative}, {algorithms.Candidate, &d.Candidate}} {
		if side.Never > 0 {
			list = append(list, fmt.Sprintf("%s can never pass the %s: each costs more than it allows at once; the largest cost is %s",
				humanize.Counted(side.Never, "request"), side.role, humanize.Grouped(d.LargestCost)))
		}
	}
	return list
}

// writeHarmed writes the keys with the most differences, with the share of their own requests that each side denies.
func writeHarmed(b *strings.Builder, harm string, list []KeyHarm) {
	if len(list) == 0 {
		return
	}

	fmt.Fprintf(b, "\nwould be %s most\n", harm)
	fmt.Fprintf(b, "  %10s  %10s  %13s  %9s  %s\n", "times", "requests", "denied before", "after", "key")
	for i := range list {
		k := &list[i]
		fmt.Fprintf(b, "  %10s  %10s  %13s  %9s  %s\n", humanize.Grouped(k.Count), humanize.Grouped(k.Requests),
			humanize.Percent(k.Before()), humanize.Percent(k.After()), humanize.Printable(k.Key))
	}
}

// Before is the share of the key's own requests that the authoritative denies.
func (k *KeyHarm) Before() float64 { return float64(k.DeniedBefore) / float64(max(1, k.Requests)) }

// After is the share of the key's own requests that the candidate denies.
func (k *KeyHarm) After() float64 { return float64(k.DeniedAfter) / float64(max(1, k.Requests)) }
