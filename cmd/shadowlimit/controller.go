package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/notify"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

const controllerDescription = `Leads a service while no instance of it does: it evaluates every policy,
moves those with mode: automatic, and prints verdicts and alarms of the
others. Instances of the service do the same, so a controller is needed only
where they do not run all the time. Several controllers may run at once: one
leads. An interrupt ends the command.

--notify tells a URL of each move, hold, alarm, forced step and red button,
whoever has made it: as CloudEvents in JSON, whose types are
com.github.shadowlimit.moved, held, resumed, rolled_back, forced, red_button,
deployed and alarm, or as messages for Slack. Of several controllers one
tells. While the URL fails it is asked again, for up to a day; an event that
comes twice has the same id. SHADOWLIMIT_NOTIFY keeps a token in the URL out
of the list of processes.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit controller`

func controllerCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "controller",
		Usage:       "move the automatic policies, until interrupted",
		Description: controllerDescription,
		Flags: fleetFlags(
			&cli.StringFlag{Name: "notify", EnvVars: []string{"SHADOWLIMIT_NOTIFY"}, Usage: "`URL` that is told of moves and alarms"},
			&cli.StringFlag{Name: "notify-as", Value: notify.CloudEvents, Usage: "`FORM` of what it is told: cloudevents or slack"},
		),
		Action: withFleet(controllable, func(c *cli.Context, f *fleet) error { return controlFleet(c, f, std) }),
	}
}

// controllable refuses an invocation with arguments.
func controllable(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(seeHelp(c), "controller takes no arguments")
	}
	if address := c.String("notify"); address != "" {
		if err := notify.Check(address, c.String("notify-as")); err != nil {
			return usagef("such as --notify https://HOST/PATH --notify-as slack", "%v", err)
		}
	} else if c.IsSet("notify-as") {
		return usagef("add --notify URL, or leave it out", "--notify-as has no effect without --notify")
	}
	return nil
}

// controlFleet leads, as far as no other leader does, until it is interrupted.
func controlFleet(c *cli.Context, f *fleet, std streams) error {
	// Two controllers of one user are two.
	id := fmt.Sprintf("controller %s-%08x", actor(), rand.Uint32())
	leader := stages.NewLeader(f.store, id, stages.NewController(f.store, f.ledger, id),
		func(ctx context.Context, a *stages.Assessment) (stages.Details, error) {
			return status.DetailsOf(ctx, f.ledger, a)
		})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context), glanceBudget)
		defer cancel()
		_ = leader.Leave(ctx) // else the lease ends by itself
	}()

	if address := c.String("notify"); address != "" {
		notifier, err := notify.New(f.store, f.name, id, address, c.String("notify-as"), slog.New(slog.NewTextHandler(std.err, nil)))
		if err != nil {
			return err
		}
		var telling sync.WaitGroup
		defer telling.Wait()
		telling.Go(func() { notifier.Run(c.Context) })
	}

	log := &controllerLog{format: f.format, verdicts: map[string]string{}, std: std}
	for {
		turn, err := leader.Turn(c.Context)

		// An interrupt makes the last call fail, which is no failure.
		if c.Context.Err() != nil {
			return nil
		}
		if err != nil {
			say(std.err, "shadowlimit: %v; trying again\n", err)
		}
		if turn.Evaluated && len(turn.List) == 0 {
			log.noPolicies(f.name)
		}
		log.leads(&turn)
		if err := log.write(turn.List, turn.Moves); err != nil {
			return err
		}

		select {
		case <-c.Context.Done():
			return nil
		case <-time.After(stages.LeadEvery):
		}
	}
}

// controllerLog prints the moves of a leader, and the verdicts and alarms that are new.
type controllerLog struct {
	format   format
	verdicts map[string]string // by policy, as printed last
	empty    bool              // the missing policies were reported
	leader   string            // another one, as reported
	std      streams
}

// noPolicies reports once that there is nothing to judge.
func (l *controllerLog) noPolicies(service string) {
	if !l.empty {
		l.empty = true
		fmt.Fprintf(l.std.err, "no instance of %q has announced a policy yet\n", service)
	}
}

// leads reports that another one leads, and which.
func (l *controllerLog) leads(t *stages.Turn) {
	other := t.Leader
	if t.Leads {
		other = ""
	}
	if other != l.leader && other != "" {
		fmt.Fprintf(l.std.err, "%s leads, so this controller waits\n", humanize.Printable(other))
	}
	l.leader = other
}

func (l *controllerLog) write(list []stages.Assessment, moves []stages.Move) error {
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

func (l *controllerLog) writeVerdict(a *stages.Assessment) error {
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

func (l *controllerLog) writeMove(m stages.Move) error {
	if l.format == formatJSON {
		return writeJSON(l.std.out, map[string]any{"policy": m.Policy, "move": transitionOf(&m.State)})
	}
	_, err := fmt.Fprintf(l.std.out, "%s  %s: %s -> %s: %s\n",
		stamp(m.State.At), m.Policy, m.State.From, m.State.Describe(), m.State.Reason)
	return err
}
