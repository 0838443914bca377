package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const adoptDescription = `Lets the policy file that most instances have take over, although its generation is
smaller than that of the file before. A file without a generation has 0.

Instances whose epoch is not the stored one enforce the authoritative. Which epoch is
stored is decided by votes: each live instance that has decided a request has one. An
epoch with most votes takes over after half a minute by itself, unless its generation is
smaller: then it waits for 10 minutes without a vote of the stored one, or for this
command. Adopting changes the generation only. It does not change the votes, so a file
that only a few instances have cannot be adopted.

A generation protects from old files that still get traffic. See what status says of the
instances first: the stored epoch may be the one that is wanted, and the others are old.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit adopt per-client \
      --reason "release 42 is undone"   # refused (3): it has one file only`

func adoptCommand(std streams) *cli.Command {
	m := move{needsReason: true, dangerous: true, do: func(ctx context.Context, t *task) (promotion.State, error) {
		s, err := promotion.Adopt(ctx, t.fleet.store, t.policy(), t.order)
		if err == nil && !t.order.DryRun {
			fmt.Fprintf(std.err, "%s: the generation is %d now; the epoch with most votes takes over within half a minute\n",
				t.policy(), s.Generation)
		}
		return s, err
	}}

	return &cli.Command{
		Name:        "adopt",
		Usage:       "let the epoch with most votes take over in spite of a smaller generation",
		ArgsUsage:   "POLICY",
		Description: adoptDescription,
		Flags:       m.flags(),
		Action:      m.action(std),
	}
}
