package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

const rollbackDescription = `Returns a policy to its authoritative side at once, whatever its stage, and sets it
on hold. It looks at no evidence, wins over every other move, and waits until every
live instance has applied it. The authoritative has counted all the time, unless the
migration was completed: then every client starts with a fresh budget.

If the authoritative's store does not answer, the command says what the rollback would
do. With on_store_failure: deny every request would be denied, so it does nothing and ends
with exit status 3, unless there is --force. In completed no instance may know whether
that store answers: with deny the same holds then.

If Redis does not answer, the command says NOT STORED and what to press instead, and ends
with exit status 1. With --wait it tries again until --timeout, and ends with status 5 if
the rollback is not stored by then. Instances that have been silent for less than 10
minutes and have not left are NOT REACHED: they may still enforce the candidate, so end
each such process, or press its red button. The command cannot wait for them, and ends
with exit status 0 where others have applied the rollback; 5 means that a live instance has
not applied it in time, or that it has reached no instance.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit rollback per-client --reason "429s for acme"
  shadowlimit rollback per-client --reason "429s for acme" \
      --wait --timeout 1h   # through an outage of Redis`

func rollbackCommand(std streams) *cli.Command {
	m := move{needsReason: true, ignoresEvidence: true, do: rollbackDo(std), effect: func(a *stages.Assessment, _ stages.State) string {
		return status.StoreUnreachable(a)
	}}
	return &cli.Command{
		Name:        "rollback",
		Usage:       "return a policy to its authoritative side at once",
		ArgsUsage:   "POLICY",
		Description: rollbackDescription,
		Flags: m.flags(
			&cli.BoolFlag{Name: "force", Usage: "roll back although every request could be denied"},
			&cli.BoolFlag{Name: "wait", Usage: "try again while Redis does not answer, until --timeout"},
		),
		Action: m.rollback(std),
	}
}

// rollback carries a rollback out. With --wait Redis need not answer when it begins.
func (m move) rollback(std streams) cli.ActionFunc {
	act := func(c *cli.Context, f *fleet) error { return m.order(c, f, std) }
	return m.checked(func(c *cli.Context) error {
		if c.Bool("wait") {
			return withSilentFleet(act)(c)
		}
		return sayNotStored(c, withFleet(needsPolicy, act)(c))
	})
}

func rollbackDo(std streams) func(context.Context, *task) (stages.State, error) {
	return func(ctx context.Context, t *task) (stages.State, error) {
		// A dry run comes before the order, in the same time. Where it has used all of that,
		// the order still gets one try.
		until := t.start.Add(t.cli.Duration("timeout"))
		if least := time.Now().Add(commandBudget); !t.order.DryRun && until.Before(least) {
			until = least
		}
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()

		o := &outage{policy: t.policy(), until: until, std: std}
		s, err := o.tryOn(ctx, t, func() (stages.State, error) {
			return stages.Rollback(ctx, &sentStore{Store: t.fleet.store, sent: &o.sent}, t.policy(), t.order)
		})
		t.wasAway = t.wasAway || !o.began.IsZero()
		return s, t.fleet.unknown(ctx, t.policy(), err)
	}
}
