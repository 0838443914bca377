package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const controllerDescription = `Judges every policy of a service periodically (--every). It moves the policies with mode:
automatic; for the others it prints verdicts and alarms. Instances of the service do
the same, so a controller is needed only where they do not run all the time. Several
controllers may run at once. An interrupt ends the command.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit controller`

func controllerCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "controller",
		Usage:       "judge policies and move the automatic ones, until interrupted",
		Description: controllerDescription,
		Flags:       fleetFlags(&cli.DurationFlag{Name: "every", Value: 15 * time.Second, Usage: "`TIME` between two judgements"}),
		Action:      withFleet(controllable, func(c *cli.Context, f *fleet) error { return f.control(c, std) }),
	}
}

// triggersEvery is how often the rollback triggers are checked between two judgements: harm to
// clients cannot wait for the next one.
const triggersEvery = 5 * time.Second

// controllable refuses an invocation with arguments, or without a time between two judgements.
func controllable(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(seeHelp(c), "controller takes no arguments")
	}
	if every := c.Duration("every"); every <= 0 {
		return usagef("such as 15s", "--every %s: want a time above 0", every)
	}
	return nil
}

// control judges and moves policies until it is interrupted.
func (f *fleet) control(c *cli.Context, std streams) error {
	every := c.Duration("every")
	controller := promotion.NewController(f.store, f.ledger, "controller "+actor())
	log := &controllerLog{format: f.format, verdicts: map[string]string{}, std: std}
	for next := time.Now(); ; {
		var list []promotion.Assessment
		var moves []promotion.Move
		var err error
		if time.Now().Before(next) {
			moves, err = controller.CheckTriggers(c.Context)
		} else {
			next = time.Now().Add(every)
			list, moves, err = controller.Step(c.Context)
			if err == nil && len(list) == 0 {
				log.noPolicies(f.name)
			}
		}

		// An interrupt makes the last call fail, which is no failure.
		if c.Context.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintf(std.err, "shadowlimit: %v; trying again\n", err)
		}
		if err := log.write(list, moves); err != nil {
			return err
		}

		select {
		case <-c.Context.Done():
			return nil
		case <-time.After(min(triggersEvery, time.Until(next))):
		}
	}
}

// controllerLog prints the moves of a controller, and the verdicts and alarms that are new.
type controllerLog struct {
	format   format
	verdicts map[string]string // by policy, as printed last
	empty    bool              // the missing policies were reported
	std      streams
}

// noPolicies reports once that there is nothing to judge.
func (l *controllerLog) noPolicies(service string) {
	if !l.empty {
		l.empty = true
		fmt.Fprintf(l.std.err, "no instance of %q has announced a policy yet\n", service)
	}
}

func (l *controllerLog) write(list []promotion.Assessment, moves []promotion.Move) error {
	for i := range list {
		// The numbers of an alarm change with every judgement, so only its presence counts as new.
		a := &list[i]
		verdict := fmt.Sprint(a.Gate.Verdict, a.Alarm.Reason != "")
		if l.verdicts[a.Spec.Policy] == verdict {
			continue
		}

		l.verdicts[a.Spec.Policy] = verdict
		if err := l.writeVerdict(a); err != nil {
			return err
		}
	}

	for _, m := range moves {
		if err := l.writeMove(m); err != nil {
			return err
		}
	}
	return nil
}

func (l *controllerLog) writeVerdict(a *promotion.Assessment) error {
	if l.format == formatJSON {
		return writeJSON(l.std.out, map[string]any{
			"policy": a.Spec.Policy, "stage": a.State.Stage, "gate": a.Gate, "alarm": a.Alarm.Reason,
		})
	}

	_, err := fmt.Fprintf(l.std.out, "%s  %s: %s, the gate says %s: %s\n",
		stamp(a.Evidence.Now), a.Spec.Policy, a.State.Describe(), a.Gate.Verdict, a.Gate.Reason)
	if err == nil && a.Alarm.Reason != "" {
		_, err = fmt.Fprintf(l.std.out, "%s  %s: ALARM: %s\n", stamp(a.Evidence.Now), a.Spec.Policy, a.Alarm.Reason)
	}
	return err
}

func (l *controllerLog) writeMove(m promotion.Move) error {
	if l.format == formatJSON {
		return writeJSON(l.std.out, map[string]any{"policy": m.Policy, "move": transitionOf(&m.State)})
	}
	_, err := fmt.Fprintf(l.std.out, "%s  %s: %s -> %s: %s\n",
		stamp(m.State.At), m.Policy, m.State.From, m.State.Describe(), m.State.Reason)
	return err
}
