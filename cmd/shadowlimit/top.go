package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const topDescription = `Shows the keys that the candidate would newly deny most, on all instances,
since the evidence began; with --denied, the keys that the authoritative
denies most. A count is at most as much too high as the column ERROR says,
and may be five minutes old. Keys are HMACs if the service has a secret. A
first line says for how many keys the candidate is enforced: the counts are
of answers, whether clients got them or not.

Clients choose keys: control characters in them are written as \n or \x1b,
but for -o json.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit top per-client
  shadowlimit top per-client --denied`

func topCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "top",
		Usage:       "show the keys that are hurt most",
		ArgsUsage:   "POLICY",
		Description: topDescription,
		Flags:       fleetFlags(&cli.BoolFlag{Name: "denied", Usage: "the keys that the authoritative denies"}),
		Action:      withFleet(needsPolicy, func(c *cli.Context, f *fleet) error { return topAction(c, f, std.out) }),
	}
}

// topReport is the contract of top -o json.
type topReport struct {
	Policy   string              `json:"policy"`
	Keys     []evidence.KeyCount `json:"keys"`
	Distinct int64               `json:"distinct"`
	// Share is about the first key's share of everything that was counted: its count is older by up to
	// five minutes than the sum. It is nil if nothing was counted.
	Share *float64 `json:"share"`

	harm     string  // what the keys suffer
	side     string  // whose answers were counted
	enforced float64 // the percentage of the keys for which the candidate is enforced
}

func topAction(c *cli.Context, f *fleet, out io.Writer) error {
	list, err := f.assess(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	report, err := topOf(c, f, &list[0])
	if err != nil {
		return err
	}
	return f.format.print(out, report, report.writeText)
}

// topOf gathers the frequent keys: newly denied, or with --denied, denied by the authoritative.
func topOf(c *cli.Context, f *fleet, a *stages.Assessment) (*topReport, error) {
	total := a.Evidence.History.Total()
	kind, side, harm, all := evidence.KeysNewlyDenied, algorithms.Candidate, "newly denied", total[evidence.NewlyDenied]
	if c.Bool("denied") {
		kind, side, harm, all = evidence.KeysDenied, algorithms.Authoritative, "denied by the authoritative", total.AuthoritativeDenies()
	}

	keys, err := f.ledger.Top(c.Context, a.State.LedgerID(a.Spec.Policy), kind)
	if err != nil {
		return nil, err
	}

	report := &topReport{
		Policy: a.Spec.Policy, Keys: keys, Distinct: a.Evidence.History.Distinct[kind],
		harm: harm, side: side.String(), enforced: a.State.Share(),
	}
	if len(keys) > 0 && all > 0 {
		share := float64(keys[0].Count) / float64(all)
		report.Share = &share
	}
	return report, nil
}

func (r *topReport) writeText(out io.Writer) error {
	// In shadow and in a canary most of these denials have not happened: an operator must not take them for harm.
	fmt.Fprintf(out, "the %s's answers, not what clients got; the candidate is enforced for %g %% of the keys\n", r.side, r.enforced)
	fmt.Fprintf(out, "%s %s since the evidence began\n", humanize.Counted(r.Distinct, "key"), r.harm)
	if r.Share != nil {
		fmt.Fprintf(out, "the first has about %s of it\n", humanize.Percent(*r.Share))
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "count\terror\t  key")
	for _, k := range r.Keys {
		fmt.Fprintf(table, "%s\t%s\t  %s\n",
			humanize.Grouped(k.Count), humanize.Grouped(k.Error), humanize.Printable(k.Key))
	}
	return table.Flush()
}
