package main

import (
	"io"

	"github.com/urfave/cli/v2"
)

const statusDescription = `Shows a line for each policy: its stage, the verdict for its next step, how
many of its conditions are met, the ratio that is worst, and since when it
has its stage. The most urgent come first, below what cannot wait. Of over 20
policies it shows those that need somebody, and counts the others. With a
pattern such as 'api-*', or --label, it shows a line for each policy. With
names it shows all of these policies: what is enforced, what to do next, the
conditions, whom it hurts, and the instances that have applied the stage. The
verdict is the one that the service's leader has published, or without a
leader one of this moment.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit status
  shadowlimit status '*'
  shadowlimit status per-client
  shadowlimit status per-client -o json`

func statusCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "show the stages and verdicts of a running service",
		ArgsUsage:   "[POLICY...]",
		Description: statusDescription,
		Flags:       fleetFlags(labelFlag()),
		Action: withFleet(labelled, func(c *cli.Context, f *fleet) error {
			return statusAction(c, f, std.out)
		}),
	}
}

func statusAction(c *cli.Context, f *fleet, out io.Writer) error {
	names, err := namesOfPolicies(c, f)
	if err != nil {
		return err
	}
	report, err := f.report(c.Context, names...)
	if err != nil {
		return err
	}
	text := report.WriteText
	switch {
	case len(names) == 0:
		text = report.WriteScreen
	case selects(c):
		text = report.WriteList
	}
	return f.format.print(out, report, text)
}
