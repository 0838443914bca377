package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const rollbackDescription = `Returns a policy to its authoritative side at once, whatever its stage, and sets
it on hold. It asks nothing, wins over every other move, and waits until every live
instance has applied it. The authoritative has been counting all the while, unless
the migration was completed: then everybody starts with a fresh budget.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit rollback per-client --reason "429s for acme"`

func rollbackCommand(io streams) *cli.Command {
	m := move{
		needsReason: true, blind: true,
		do: func(ctx context.Context, f *fleet, _ *cli.Context, a *promotion.Assessment, o promotion.Order) (promotion.State, error) {
			return promotion.Rollback(ctx, f.store, a.Spec.Policy, o)
		},
	}
	return &cli.Command{
		Name: "rollback", Usage: "return a policy to its authoritative side at once", ArgsUsage: "POLICY", Description: rollbackDescription,
		Flags: orderFlags(), Action: m.action(io),
	}
}
