package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const promoteDescription = `Moves a policy forward: to the next step of its canary, or to the step named.
It is refused, with exit status 3, unless all conditions of the step are met,
and names those that are not. The command waits until every live instance has
applied the step; after --timeout it ends with exit status 5. Exit status 4:
the state has changed since it was judged, or is not the one that --expect
names. Nothing was done: see status, and decide again. Several policies, or a
pattern, are each moved by their own conditions: those that are not are
named, and the exit status is that of the first of them. With --joint 5% the
wrong ones among all that this command moves are expected to be at most 5%:
where few of those named pass, each needs a higher score (docs/gate.md).

Examples beside "shadowlimit demo --serve", after a resume:
  shadowlimit promote per-client \
      --reason "a week without divergence"   # refused (3) until it may
  shadowlimit promote 'per-*' --reason "calm for a week"   # refused (3)
  shadowlimit promote 'per-*' --joint 5% --reason "a week"   # refused (3)
  shadowlimit promote per-client --to 50% --force --reason "half, as a drill"
  shadowlimit promote per-client --to promoted --force --reason "a drill"`

func promoteCommand(std streams) *cli.Command {
	m := move{needsReason: true, valid: promoteValid, check: promoteCheck, do: promoteDo}
	m.together = m.jointly
	return m.command(std, "promote", "move a policy's candidate forward", promoteDescription,
		&cli.StringFlag{Name: "to", Usage: "`STEP`: a percentage such as 10%, or promoted, which is all keys (default: the next step of the canary)"},
		&cli.BoolFlag{Name: "full", Usage: "the same as --to full"},
		&cli.BoolFlag{Name: "force", Usage: "overrule the gate"},
		&cli.StringFlag{Name: "joint", Usage: "of several policies: expect at most `SHARE` of those moved to be wrong, such as 5%"},
	)
}

// promoteCheck refuses a step with the conditions that are not met. A step that is named has conditions of its own.
func promoteCheck(t *task) error {
	a := t.assessment
	if step, _ := namedStep(t.cli); step != nil {
		a.For(*step)
	}
	if t.joint != nil && a.MayStep() { // its own conditions come first: without them it does not count among all
		a.Gate.Add(t.joint.condition())
	}
	if a.MayStep() {
		return nil
	}
	text := fmt.Sprintf("not promoted: the verdict is %s: %s (--force overrules this)", a.Gate.Verdict, a.Gate.Reason)
	for i := range a.Gate.Conditions {
		if c := &a.Gate.Conditions[i]; !c.Met && !several(t.cli) { // of a hundred policies the reasons alone are enough to read
			text += fmt.Sprintf("\n  %s: have %s, need %s", c.Name, c.Have, c.Need)
		}
	}
	return errors.New(folded(text))
}

func promoteValid(c *cli.Context) error {
	if _, err := jointRate(c); err != nil {
		return err
	}
	_, err := namedStep(c)
	return err
}

// namedStep returns the step that the flags name, nil for the next one.
func namedStep(c *cli.Context) (*stages.Step, error) {
	to := c.String("to")
	if c.Bool("full") {
		if to != "" && to != "full" {
			return nil, usagef("give one of them", "--full and --to %s contradict each other", to)
		}
		to = "full"
	}

	switch to {
	case "":
		return nil, nil
	case "full", "promoted":
		return &stages.Step{Stage: stages.Promoted}, nil
	}
	percent, err := parsePercent(to)
	if err != nil {
		return nil, usagef("want a percentage such as 10%, or promoted", "--to %s: %v", to, err)
	}
	if percent == 100 {
		return &stages.Step{Stage: stages.Promoted}, nil
	}
	return &stages.Step{Stage: stages.Canary, Percent: percent}, nil
}

func promoteStep(c *cli.Context, a *stages.Assessment) (stages.Step, error) {
	step, err := namedStep(c)
	if step == nil && err == nil {
		return a.State.Next(a.Spec.Config.Canary)
	}
	if err != nil {
		return stages.Step{}, err
	}
	return *step, nil
}

func promoteDo(ctx context.Context, t *task) (stages.State, error) {
	o, a := t.order, t.assessment
	if err := o.Expects(t.policy(), a.State); err != nil { // before anything else: a promoted policy has no next step
		return a.State, err
	}
	if err := a.Followed(); err != nil { // no reason overrules that
		return a.State, err
	}
	step, err := promoteStep(t.cli, a)
	if err != nil {
		return a.State, err
	}

	// The step is for the state that the gate has judged: a later one may need another step.
	if o.Expect == nil {
		o.Expect = &a.State.Version
	}
	if o.Evidence = a.Gate.Brief(); t.forced() {
		o.Evidence = stages.Forced + o.Evidence
	}
	if t.joint != nil {
		o.Evidence += "; " + t.joint.text()
	}

	// A command that was stopped at its terminal must not act on what it knew then. A forced step does not depend on it.
	if !t.forced() {
		o.AsOf = a.Evidence.Now
	}
	return stages.Advance(ctx, t.fleet.store, t.policy(), step, o)
}
