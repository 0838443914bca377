package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const pauseDescription = `Sets a policy on hold: nothing moves it forward until somebody resumes it. An
automatic policy is still rolled back if the guards say so.

Example, with the variables that "shadowlimit demo --serve" prints, after a resume:
  shadowlimit pause per-client --reason "incident elsewhere"`

func pauseCommand(io streams) *cli.Command {
	m := move{
		do: func(ctx context.Context, f *fleet, _ *cli.Context, a *promotion.Assessment, o promotion.Order) (promotion.State, error) {
			return promotion.Pause(ctx, f.store, a.Spec.Policy, o)
		},
	}
	return &cli.Command{
		Name: "pause", Usage: "set a policy on hold", ArgsUsage: "POLICY", Description: pauseDescription,
		Flags: orderFlags(), Action: m.action(io),
	}
}

const resumeDescription = `Ends a hold. A policy that was rolled back returns to shadow and its evidence
starts anew; it must compare something else than what was rolled back, or be
forced.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit resume per-client --force --reason "it was not the limiter"   # after a rollback
  shadowlimit resume per-client --reason "incident over"                    # after a pause`

func resumeCommand(io streams) *cli.Command {
	m := move{
		do: func(ctx context.Context, f *fleet, _ *cli.Context, a *promotion.Assessment, o promotion.Order) (promotion.State, error) {
			s, err := promotion.Resume(ctx, f.store, a.Spec.Policy, o)
			if errors.Is(err, promotion.ErrSameEpoch) {
				err = fmt.Errorf("%w (--force)", err)
			}
			return s, err
		},
	}
	return &cli.Command{
		Name: "resume", Usage: "end a policy's hold", ArgsUsage: "POLICY", Description: resumeDescription,
		Flags: orderFlags(
			&cli.BoolFlag{Name: "force", Usage: "return to shadow though nothing has changed since the rollback"},
		), Action: m.action(io),
	}
}
