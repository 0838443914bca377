package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// orderFlags are those of all commands that change a policy's stage.
func orderFlags(more ...cli.Flag) []cli.Flag {
	return fleetFlags(append([]cli.Flag{
		&cli.StringFlag{Name: "reason", Usage: "`WHY`, for the audit trail"},
		&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "how long to wait for all instances"},
		&cli.StringFlag{Name: "expect", Usage: "do nothing unless the state is `TERM.SEQ`, as status shows it"},
		&cli.BoolFlag{Name: "yes", Usage: "do not ask for confirmation"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and do nothing"},
	}, more...)...)
}

// move is a command that changes a policy's stage.
type move struct {
	needsReason bool
	// dangerous moves need a confirmation although they are not forced.
	dangerous bool
	// blind moves ignore the evidence, so they work even if it cannot be read.
	blind bool
	// check says what forbids the move; force may overrule it.
	check func(*promotion.Assessment) error
	do    func(context.Context, *fleet, *cli.Context, *promotion.Assessment, promotion.Order) (promotion.State, error)
}

func (m move) action(std streams) cli.ActionFunc {
	return withFleet(func(c *cli.Context, f *fleet) error {
		policy, err := onePolicy(c)
		if err != nil {
			return err
		}
		order, err := m.order(c)
		if err != nil {
			return err
		}

		a := &promotion.Assessment{Spec: promotion.Spec{Policy: policy}}
		if !m.blind {
			list, err := f.assess(c.Context, policy)
			if err != nil {
				return err
			}
			a = &list[0]
		}
		return m.carryOut(c, f, a, order, std)
	})
}

// order reads the flags of an order.
func (m move) order(c *cli.Context) (promotion.Order, error) {
	o := promotion.Order{
		Actor:  actor(),
		Reason: strings.TrimSpace(c.String("reason")),
		Force:  c.Bool("force"),
		DryRun: c.Bool("dry-run"),
	}
	switch {
	case o.Reason == "" && (m.needsReason || o.Force):
		return o, usagef("say why, for the readers of the audit trail: --reason TEXT", "%s needs a reason", c.Command.Name)
	case c.Duration("timeout") <= 0:
		return o, usagef("such as 30s", "--timeout %s: want a time above 0", c.Duration("timeout"))
	}

	if text := c.String("expect"); text != "" {
		v, err := promotion.ParseVersion(text)
		if err != nil {
			return o, usagef("status shows versions as TERM.SEQ", "--expect %s: want TERM.SEQ", text)
		}
		o.Expect = &v
	}
	return o, nil
}

func (m move) carryOut(c *cli.Context, f *fleet, a *promotion.Assessment, order promotion.Order, std streams) error {
	// A dry run comes first: an impossible move is refused as such, before conditions that may
	// still be met are looked at.
	planned := order
	planned.DryRun = true
	next, err := m.do(c.Context, f, c, a, planned)
	if err != nil {
		return refusedMove(err)
	}

	if m.check != nil && !order.Force {
		if err := m.check(a); err != nil {
			return statusError{exitNotMet, err}
		}
	}

	if next.Stage == promotion.RolledBack && strings.HasPrefix(next.From, string(promotion.Completed)) {
		fmt.Fprintln(std.err, "the authoritative is cold: no request has been charged to it since the migration was completed, so every client starts with a fresh budget")
	}
	if order.DryRun {
		if noteEarlierMove(a.Spec.Policy, next, order, std) && f.format == formatText {
			return nil
		}
		return f.showPlan(a.Spec.Policy, next, std.out)
	}
	if (order.Force || m.dangerous) && !c.Bool("yes") {
		if err := confirm(c.Context, a.Spec.Policy, next, std); err != nil {
			return err
		}
	}

	start := time.Now()
	state, err := m.do(c.Context, f, c, a, order)
	if err != nil {
		return refusedMove(err)
	}
	noteEarlierMove(a.Spec.Policy, state, order, std)

	// The expected state has been replaced. A rollback that is stored again after a failover must
	// not wait for it to come back.
	order.Expect = nil
	return f.awaitFleet(c, &outcome{Policy: a.Spec.Policy, state: state, order: order, start: start}, std)
}

// noteEarlierMove says so, and returns true, if a state is not that of the order: an earlier
// order had the same effect, and nothing was moved.
func noteEarlierMove(policy string, s promotion.State, order promotion.Order, std streams) bool {
	if s.Actor == order.Actor && s.Reason == order.Reason {
		return false
	}
	fmt.Fprintf(std.err, "%s was %s already, by %s: %s\n", policy, s.Describe(), humanize.Printable(s.Actor), humanize.Printable(s.Reason))
	return true
}

// showPlan says what an order would do.
func (f *fleet) showPlan(policy string, next promotion.State, out io.Writer) error {
	plan := map[string]any{
		"policy": policy, "dry_run": true, "from": next.From, "stage": next.Stage, "percent": next.Percent,
		"hold": next.Hold, "term": next.Term, "seq": next.Seq,
	}
	return f.format.print(out, plan, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "would move %s from %s to %s, version %s\n", policy, next.From, next.Describe(), next.Version)
		return err
	})
}

// confirm asks a person at a terminal to type the policy's name. A script is not asked: it has
// named the policy, and there is no one to answer.
func confirm(ctx context.Context, policy string, next promotion.State, std streams) error {
	in, ok := std.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}

	fmt.Fprintf(std.err, "This moves %s from %s to %s. Type its name, %s, to go on: ", policy, next.From, next.Describe(), policy)
	answer := bufio.NewScanner(interruptible(ctx, in))
	if answer.Scan() && strings.TrimSpace(answer.Text()) == policy {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return statusError{exitNotMet, errors.New("not confirmed: nothing was done")}
}
