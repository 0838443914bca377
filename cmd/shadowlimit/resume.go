package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const resumeDescription = `Ends a hold. After a rollback the policy returns to shadow and its evidence
starts again. It is refused while a red button is pressed on a live instance.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit resume per-client --reason "it was a proxy"  # after a rollback
  shadowlimit resume per-client --reason "incident over"   # after a pause`

func resumeCommand(std streams) *cli.Command {
	m := move{do: func(ctx context.Context, t *task) (stages.State, error) {
		return stages.Resume(ctx, t.fleet.store, t.policy(), t.order)
	}}

	return m.command(std, "resume", "end a policy's hold", resumeDescription)
}
