package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const promoteDescription = `Moves a policy forward: to the next step of its canary, or to the step named. It
refuses unless the gate says pass and the canary has dwelt, with exit status 3,
and waits until every live instance has applied the step, else exit status 5.

Examples, with the variables that "shadowlimit demo --serve" prints, after a resume:
  shadowlimit promote per-client --reason "a week without divergence"   # refused (3) until the gate says pass
  shadowlimit promote per-client --to 50% --force --reason "start with half, as a drill"
  shadowlimit promote per-client --to full --force --reason "drill in staging"`

func promoteCommand(io streams) *cli.Command {
	m := move{needsReason: true, check: promoteCheck, do: promoteDo}
	return &cli.Command{
		Name: "promote", Usage: "move a policy's candidate forward", ArgsUsage: "POLICY", Description: promoteDescription,
		Flags: orderFlags(
			expectFlag(),
			&cli.StringFlag{Name: "to", Usage: "`STEP`: a percentage such as 10%, or full"},
			&cli.BoolFlag{Name: "full", Usage: "the same as --to full"},
			&cli.BoolFlag{Name: "force", Usage: "whatever the gate says"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask when forced"},
		),
		Action: m.action(io),
	}
}

func promoteCheck(a *promotion.Assessment) error {
	if notYet := a.NotYet(); notYet != "" {
		return fmt.Errorf("not promoted: %s (--force overrules this)", notYet)
	}
	return nil
}

func expectFlag() cli.Flag {
	return &cli.StringFlag{Name: "expect", Usage: "do nothing unless the state is `TERM.SEQ`, as status shows it"}
}

func promoteStep(c *cli.Context, a *promotion.Assessment) (promotion.Step, error) {
	to := c.String("to")
	if c.Bool("full") {
		if to != "" && to != "full" {
			return promotion.Step{}, usagef("give one of them", "--full and --to %s contradict each other", to)
		}
		to = "full"
	}
	switch to {
	case "":
		return a.Spec.Config.NextStep(a.State)
	case "full":
		return promotion.Step{Stage: promotion.Promoted}, nil
	}
	percent, err := parsePercent(to)
	if err != nil {
		return promotion.Step{}, usagef("want a percentage such as 10%, or full", "--to %s: %v", to, err)
	}
	return promotion.Step{Stage: promotion.Canary, Percent: percent}, nil
}

func promoteDo(ctx context.Context, f *fleet, c *cli.Context, a *promotion.Assessment, o promotion.Order) (promotion.State, error) {
	step, err := promoteStep(c, a)
	if err != nil {
		return a.State, err
	}
	if a.Spec.Config.Sampled() {
		return a.State, statusError{exitNotMet, fmt.Errorf("%s cannot leave shadow, not even by force: %s", a.Spec.Policy, a.Gate.Reason)}
	}
	if o.Expect == nil {
		o.Expect = &a.State.Version // what the gate has judged
	}
	return promotion.Advance(ctx, f.store, a.Spec.Policy, step, o)
}

const rollbackDescription = `Returns a policy to its authoritative side at once, whatever its stage, and sets
it on hold. It asks nothing, wins over every other move, and waits until every live
instance has applied it. The authoritative has been counting all the while.

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
		Flags: orderFlags(expectFlag()), Action: m.action(io),
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
			expectFlag(),
			&cli.BoolFlag{Name: "force", Usage: "return to shadow though nothing has changed since the rollback"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask when forced"},
		), Action: m.action(io),
	}
}
