package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/doctor"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const rollbackDescription = `Returns a policy to its authoritative side at once, whatever its stage, and
sets it on hold. It looks at no evidence, wins over every other move, and
waits until every live instance has applied it. The authoritative has counted
all the time, unless the migration was completed: then every client starts
with a fresh budget. Several policies, or a pattern such as 'api-*', are
rolled back at the same time.

The command looks at the stores, on_store_failure, the stage, the red buttons
and the instances that are silent. It refuses, with exit status 3 and what to
repair, where every request would be denied: the candidate answers, the
authoritative's store does not, and the policy has on_store_failure: deny. In
completed no instance may know whether that store answers: with deny the same
holds then. --force overrules this.

It prints at most six lines: what it did, for whom it holds already, and what
to do next. If Redis does not answer, it says NOT STORED, and ends with exit
status 1. Instances that have been silent for less than 10 minutes and have
not left are NOT REACHED: the command cannot wait for them, and ends with
exit status 0 where others have applied the rollback; 5 means that a live
instance has not applied it in time, or that it has reached no instance.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit rollback per-client --reason "429s for acme"`

func rollbackCommand(std streams) *cli.Command {
	m := move{needsReason: true, ignoresEvidence: true, do: rollbackDo}
	command := m.command(std, "rollback", "return a policy to its authoritative side at once", rollbackDescription,
		&cli.BoolFlag{Name: "force", Usage: "roll back although every request could be denied"},
	)
	action := command.Action
	command.Action = func(c *cli.Context) error {
		err := action(c)
		if errors.As(err, new(unreachableError)) {
			return notStored(err)
		}
		return err
	}
	return command
}

// rollbackDo repeats an order until Redis answers: one that fails over may answer soon. A rollback whose answer was lost is stored
// already, and the second order finds it.
func rollbackDo(ctx context.Context, t *task) (stages.State, error) {
	// A plan comes before the order, in the same time. Where it has used all of that, the order still gets one try.
	until := t.start.Add(t.cli.Duration("timeout"))
	if least := time.Now().Add(commandBudget); !t.order.DryRun && until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()

	sent := false
	var last error
	for {
		s, err := stages.Rollback(ctx, &sentStore{Store: t.fleet.store, sent: &sent}, t.policy(), t.order)
		switch {
		case err == nil:
			return s, nil
		case sent && errors.Is(err, stages.ErrConflict) && s.Stage == stages.RolledBack && s.Hold:
			return s, nil // by the order whose answer was lost
		case isRefusal(err):
			_, fix := doctor.Diagnose(err)
			return s, notStored(fmt.Errorf("%w: %s", plainError{err}, fix))
		case !unanswered(err):
			return s, t.fleet.unknown(ctx, t.policy(), err)
		}

		// A try that the deadline has cut short says nothing of Redis.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		t.wasAway = true
		select {
		case <-ctx.Done():
			err = notStored(withRemedy(plainError{last}))
			if sent {
				err = fmt.Errorf("%w\nRedis has got the order and has not answered, so it may be stored all the same: see history", err)
			}
			return s, err
		case <-time.After(pollEvery):
		}
	}
}

// listed puts as many names behind a word as a line has room for.
func listed(what string, names []string, columns int) string {
	line := what + ": " + humanize.Printable(names[0])
	for i, name := range names[1:] {
		more := fmt.Sprintf(" and %d more", len(names)-1-i)
		if longer := line + ", " + humanize.Printable(name); len(longer)+len(" and 99 more") <= columns {
			line = longer
			continue
		}
		return line + more
	}
	return line
}
