package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const pauseDescription = `Sets a policy on hold: nothing moves it forward until it is resumed. An
automatic policy is still rolled back if its triggers demand it.

Example beside "shadowlimit demo --serve", after a resume:
  shadowlimit pause per-client --reason "incident elsewhere"`

func pauseCommand(std streams) *cli.Command {
	m := move{do: func(ctx context.Context, t *task) (stages.State, error) {
		s, err := stages.Pause(ctx, t.fleet.store, t.policy(), t.order)

		// A policy on hold is as the operator wanted it, so the advice to resume first would mislead.
		if errors.Is(err, stages.ErrHold) {
			err = statusError{exitNotMet, plainError{err}}
		}
		return s, err
	}}

	return m.command(std, "pause", "set a policy on hold", pauseDescription)
}
