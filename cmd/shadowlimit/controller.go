package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const controllerDescription = `Judges every policy of a service again and again, and moves those with mode:
automatic; of others it prints verdicts and alarms. Instances of the service do the
same, so it is needed only where they do not run all the time; any number may run. It
ends with an interrupt.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit controller`

func controllerCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "controller", Usage: "judge policies and move the automatic ones, until interrupted", Description: controllerDescription,
		Flags: fleetFlags(&cli.DurationFlag{Name: "every", Value: 15 * time.Second, Usage: "how often to judge"}),
		Action: withFleet(func(c *cli.Context, f *fleet) error {
			if c.Args().Present() {
				return usagef("see: shadowlimit controller --help", "controller takes no arguments")
			}
			if c.Duration("every") <= 0 {
				return usagef("such as 15s", "--every %s: want a time above 0", c.Duration("every"))
			}
			return control(c, f, io)
		}),
	}
}

// guardEvery is how often what cannot wait is looked at between two judgements.
const guardEvery = 5 * time.Second

// control judges and moves policies until it is interrupted.
func control(c *cli.Context, f *fleet, io streams) error {
	controller := promotion.NewController(f.store, f.ledger, "controller "+actor())
	said := map[string]string{}
	for next := time.Now(); ; {
		var list []promotion.Assessment
		var moves []promotion.Move
		var err error
		if time.Now().Before(next) {
			moves, err = controller.CheckTriggers(c.Context)
		} else {
			next = time.Now().Add(c.Duration("every"))
			if list, moves, err = controller.Step(c.Context); err == nil && len(list) == 0 && said[""] == "" {
				said[""] = "said"
				fmt.Fprintf(io.err, "no instance of %q has announced a policy yet\n", f.name)
			}
		}
		if c.Context.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintf(io.err, "shadowlimit: %v; trying again\n", err)
		}
		if err := f.say(list, moves, said, io); err != nil {
			return err
		}
		select {
		case <-c.Context.Done():
			return nil
		case <-time.After(min(guardEvery, time.Until(next))):
		}
	}
}

// say prints moves, and verdicts and alarms that are new.
func (f *fleet) say(list []promotion.Assessment, moves []promotion.Move, said map[string]string, io streams) error {
	for i := range list {
		a := &list[i]
		if news := fmt.Sprint(a.Gate.Verdict, a.Alarm.Reason != ""); said[a.Spec.Policy] != news { // an alarm's numbers change all the time
			said[a.Spec.Policy] = news
			if err := f.sayVerdict(a, io); err != nil {
				return err
			}
		}
	}
	for _, m := range moves {
		if err := f.sayMove(m, io); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) sayVerdict(a *promotion.Assessment, io streams) error {
	if f.json {
		return writeJSON(io.out, map[string]any{"policy": a.Spec.Policy, "stage": a.State.Stage, "gate": a.Gate, "alarm": a.Alarm.Reason})
	}
	_, err := fmt.Fprintf(io.out, "%s  %s: %s, the gate says %s: %s\n", stamp(a.Evidence.Now), a.Spec.Policy, a.State.Describe(), a.Gate.Verdict, a.Gate.Reason)
	if err == nil && a.Alarm.Reason != "" {
		_, err = fmt.Fprintf(io.out, "%s  %s: ALARM: %s\n", stamp(a.Evidence.Now), a.Spec.Policy, a.Alarm.Reason)
	}
	return err
}

func (f *fleet) sayMove(m promotion.Move, io streams) error {
	if f.json {
		return writeJSON(io.out, map[string]any{"policy": m.Policy, "move": transitions([]promotion.State{m.State})[0]})
	}
	_, err := fmt.Fprintf(io.out, "%s  %s: %s -> %s: %s\n", stamp(m.State.At), m.Policy, m.State.From, m.State.Describe(), m.State.Reason)
	return err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
