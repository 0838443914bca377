package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const completeDescription = `Ends a migration: the candidate stays enforced and no instance asks the
authoritative any more. A rollback remains possible, but finds the
authoritative cold: every client starts with a fresh budget. It is refused,
with exit status 3, unless the policy has been promoted for 7 days and
nothing is wrong with it.

Afterwards make the candidate the authoritative in the policy file; it keeps
its counts. Deploy that file everywhere before a side changes or the next
candidate comes. Those have a new fingerprint, and instances that still have
the old file would return to the old authoritative, cold.

Examples beside "shadowlimit demo --serve", after a promote --to full:
  shadowlimit complete per-client \
      --reason "a week without a complaint"   # refused (3) in the first week
  shadowlimit complete per-client --force --reason "drill in staging"`

func completeCommand(std streams) *cli.Command {
	m := move{needsReason: true, check: completeCheck, do: completeDo}
	return m.command(std, "complete", "end a migration: the candidate alone is judged", completeDescription,
		&cli.BoolFlag{
			Name: "force", Usage: "complete although the 7 days are not over, or something is wrong with the policy",
		},
	)
}

func completeCheck(t *task) error {
	why := t.assessment.WhyNotComplete()
	if why == "" {
		return nil
	}
	return errors.New("not completed: " + why + " (--force overrules this)")
}

func completeDo(ctx context.Context, t *task) (stages.State, error) {
	// The migration ends in the state that was judged: a rollback meanwhile must win.
	o, a := t.order, t.assessment
	if o.Expect == nil {
		o.Expect = &a.State.Version
	}

	if o.Evidence = a.Gate.Brief(); t.forced() {
		o.Evidence = stages.Forced + o.Evidence
	}
	return stages.Complete(ctx, t.fleet.store, t.policy(), o)
}
