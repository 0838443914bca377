package main

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const statusDescription = `Shows for each policy, or for one, its stage, how the candidate differs, the gate's
verdict with its reason, the instances that have applied the stage, and what to do
next. It shows the verdict that the leader has published, and how old it is;
where no instance leads it computes the verdict from the ledger.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit status
  shadowlimit status per-client -o json`

func statusCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "show stages, evidence and verdicts of a running service",
		ArgsUsage:   "[POLICY]",
		Description: statusDescription,
		Flags:       fleetFlags(),
		Action:      withFleet(takesPolicy, func(c *cli.Context, f *fleet) error { return statusAction(c, f, std.out) }),
	}
}

func statusAction(c *cli.Context, f *fleet, out io.Writer) error {
	report, err := f.report(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return f.format.print(out, report, report.WriteText)
}

// report is the status of all policies, or of one if policy is not "".
func (f *fleet) report(ctx context.Context, policy string) (status.Report, error) {
	list, err := f.look(ctx, policy)
	if err != nil {
		return status.Report{}, err
	}
	f.tryWrite(ctx, list)
	return status.Of(ctx, f.name, f.ledger, list)
}

// tryWrite notes in assessments that the service's Redis refuses writes. It answers every question of this command then, while
// no limit works and no instance can say so.
func (f *fleet) tryWrite(ctx context.Context, list []promotion.Assessment) {
	err := f.store.TryWrite(ctx)
	if !status.RefusesWrites(err) {
		return
	}

	// Beside live instances this may be the user of the command, or a replica that it was pointed at.
	for i := range list {
		if status.RefusesAll(err) || len(list[i].Live) == 0 && status.IsReplica(err) {
			list[i].Refused = err
		}
	}
}
