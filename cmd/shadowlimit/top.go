package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

const topDescription = `Shows which keys the candidate would newly deny most since its evidence began,
on all instances; with --denied, which keys the authoritative denies most. Counts are
at most ERROR too high. Keys are HMACs if the service has a secret.

Examples:
  shadowlimit top tenant-writes
  shadowlimit top tenant-writes --denied -o json`

func topCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "show the keys that are hurt most", ArgsUsage: "POLICY", Description: topDescription,
		Flags:  fleetFlags(&cli.BoolFlag{Name: "denied", Usage: "the keys that the authoritative denies"}),
		Action: withFleet(func(c *cli.Context, f *fleet) error { return topAction(c, f, io.out) }),
	}
}

// topReport is the contract of top -o json.
type topReport struct {
	Policy   string                `json:"policy"`
	Keys     []divergence.KeyCount `json:"keys"`
	Distinct int64                 `json:"distinct"`
}

func topAction(c *cli.Context, f *fleet, out io.Writer) error {
	policy, err := onePolicy(c)
	if err != nil {
		return err
	}
	list, err := f.assess(c.Context, policy)
	if err != nil {
		return err
	}
	kind, what := divergence.KeysNewlyDenied, "newly denied"
	if c.Bool("denied") {
		kind, what = divergence.KeysDenied, "denied by the authoritative"
	}
	report := topReport{Policy: policy, Distinct: list[0].Evidence.History.Distinct[kind]}
	if report.Keys, err = f.topKeys(c.Context, &list[0], kind); err != nil {
		return err
	}
	if f.json {
		return writeJSON(out, report)
	}
	fmt.Fprintf(out, "%s %s\n", divergence.Counted(report.Distinct, "key"), what)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "count\terror\t  key")
	for _, k := range report.Keys {
		fmt.Fprintf(table, "%s\t%s\t  %s\n", divergence.Grouped(k.Count), divergence.Grouped(k.Error), divergence.Printable(k.Key))
	}
	return table.Flush()
}
