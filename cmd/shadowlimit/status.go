package main

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
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
	names, err := f.names(c)
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

// report is the status of these policies, or of all without a name.
func (f *fleet) report(ctx context.Context, names ...string) (status.Report, error) {
	list, err := f.look(ctx, names...)
	if err != nil {
		return status.Report{}, err
	}
	f.tryWrite(ctx, list)
	report, err := status.Of(ctx, f.name, f.ledger, list)
	if err != nil {
		return report, err
	}
	policies := make([]string, len(list))
	for i := range list {
		policies[i] = list[i].Spec.Policy
	}
	report.Nodes = doctor.SilentNodes(ctx, f.client, f.name, policies)
	return report, nil
}

// tryWrite notes in assessments that the service's Redis refuses writes. It answers every question of this command then, while
// no limit works and no instance can say so.
func (f *fleet) tryWrite(ctx context.Context, list []stages.Assessment) {
	err := f.store.TryWrite(ctx)
	if !redisreply.RefusesWrites(err) {
		return
	}

	// Beside live instances this may be the user of the command, or a replica that it was pointed at.
	for i := range list {
		if redisreply.RefusesAll(err) || len(list[i].Live) == 0 && redisreply.IsReplica(err) {
			list[i].Refused = err
		}
	}
}
