package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// command makes the command of a move.
func (m move) command(std streams, name, usage, description string, more ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "POLICY...", Description: description, Flags: m.flags(more...), Action: m.action(std),
	}
}

// flags are those of a command that changes a policy's stage.
func (m move) flags(more ...cli.Flag) []cli.Flag {
	reason := "`WHY`, for the audit trail"
	switch {
	case m.needsReason:
		reason += " (required)"
	case len(more) > 0: // one of them is --force
		reason += " (required with --force)"
	}

	return fleetFlags(append([]cli.Flag{
		labelFlag(),
		&cli.StringFlag{Name: "reason", Usage: reason},
		&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "`TIME` to wait for all instances"},
		&cli.StringFlag{Name: "expect", Usage: "do nothing unless the state is `TERM.SEQ`, as status shows it"},
	}, more...)...)
}

// move is a command that changes a policy's stage.
type move struct {
	needsReason bool
	// ignoresEvidence is set for a move that works even if the evidence cannot be read.
	ignoresEvidence bool
	// valid refuses flags of the move alone, before Redis is asked; nil if it has none.
	valid func(*cli.Context) error
	// check says what forbids the move; force may overrule it.
	check func(*task) error
	// together judges all policies that are named before each is moved; nil if each is judged alone.
	together func(*cli.Context, *fleet, []string) (map[string]*joint, error)
	do       func(context.Context, *task) (stages.State, error)
	// effect names what else the move to a state does, "" if there is nothing to say; nil says nothing.
	effect func(*stages.Assessment, stages.State) string
}

// task is an order with everything that it is carried out by.
type task struct {
	cli        *cli.Context // for the flags
	fleet      *fleet
	assessment *stages.Assessment // of a move that ignores the evidence only what a glance has found
	order      stages.Order
	joint      *joint // nil if the policy is judged alone
	start      time.Time
	wasAway    bool // Redis has not answered for some time
}

func (t *task) policy() string { return t.assessment.Spec.Policy }

// forced reports whether the order overrules what forbids it.
func (t *task) forced() bool { return t.cli.Bool("force") }

// action refuses a wrong invocation before Redis is asked, which may not answer.
func (m move) action(std streams) cli.ActionFunc {
	valid := func(c *cli.Context) error {
		if err := needsPolicies(c); err != nil {
			return err
		}
		if _, err := m.orderOf(c); err != nil {
			return err
		}
		if m.valid != nil {
			return m.valid(c)
		}
		return nil
	}
	return withFleet(valid, func(c *cli.Context, f *fleet) error {
		names, err := namesOfPolicies(c, f)
		if err != nil {
			return err
		}
		var all map[string]*joint
		if m.together != nil {
			if all, err = m.together(c, f, names); err != nil {
				return err
			}
		}
		return eachPolicy(c, f, names, std, func(policy string, std streams) error { return m.order(c, f, policy, all[policy], std) })
	})
}

// order reads an order from the command line, and carries it out for a policy.
func (m move) order(c *cli.Context, f *fleet, policy string, joint *joint, std streams) error {
	order, err := m.orderOf(c)
	if err != nil {
		return err
	}

	// A rollback has to work while the evidence cannot be read.
	if m.ignoresEvidence {
		a, announced := f.glance(c.Context, policy)
		if !announced {
			say(std.err, "no instance has announced %s here: asking for some seconds more, in case Redis has just lost its data\n",
				humanize.Printable(policy))
		}
		return m.carryOut(&task{cli: c, fleet: f, assessment: a, order: order, start: time.Now()}, std)
	}

	list, err := f.assess(c.Context, policy)
	if err != nil {
		return err
	}
	a := &list[0]
	return m.carryOut(&task{cli: c, fleet: f, assessment: a, order: order, joint: joint, start: time.Now()}, std)
}

// jointly judges the policies that are named together, nil without --joint.
func (m move) jointly(c *cli.Context, f *fleet, names []string) (map[string]*joint, error) {
	rate, err := jointRate(c)
	if err != nil || rate == 0 {
		return nil, err
	}
	order, err := m.orderOf(c)
	if err != nil {
		return nil, err
	}
	list, err := f.controller.Assess(c.Context, names...)
	if err != nil {
		return nil, err
	}
	return m.jointOf(names, list, rate, func(a *stages.Assessment) *task {
		return &task{cli: c, fleet: f, assessment: a, order: order, start: time.Now()}
	}), nil
}

// jointOf returns what each of the policies needs. One that would not be moved alone counts with a score of 0: were it one of those
// that are found sound, and then stayed where it is, the share of the wrong ones among those that move could be larger.
func (m move) jointOf(names []string, list []stages.Assessment, rate float64, taskOf func(*stages.Assessment) *task) map[string]*joint {
	scores := map[string]float64{}
	for i := range list {
		a := &list[i]
		if _, err := m.plan(taskOf(a)); err == nil {
			scores[a.Spec.Policy] = a.Gate.LeastScore()
		}
	}
	values := make([]float64, len(names))
	for i, name := range names {
		values[i] = scores[name]
	}
	all := map[string]*joint{}
	for i, need := range gate.Joint(values, rate) {
		all[names[i]] = &joint{Rate: rate, Policies: len(names), Score: values[i], Need: need}
	}
	return all
}

// mostReason bounds a reason in bytes: every instance reads it with its heartbeats.
const mostReason = 1000

func (m move) orderOf(c *cli.Context) (stages.Order, error) {
	o := stages.Order{Actor: actor(), Reason: strings.TrimSpace(c.String("reason"))}
	switch {
	case o.Reason == "" && (m.needsReason || c.Bool("force")):
		const hint = "say why, for the readers of the audit trail: --reason TEXT"
		return o, usagef(hint, "%s needs a reason", c.Command.Name)
	case len(o.Reason) > mostReason:
		return o, usagef("give a shorter one, or a link", "--reason: %d bytes, at most %d are kept", len(o.Reason), mostReason)
	case c.Duration("timeout") <= 0:
		return o, usagef("such as 30s", "--timeout %s: want a time above 0", c.Duration("timeout"))
	}

	if text := c.String("expect"); text != "" {
		v, err := stages.ParseVersion(text)
		if err != nil {
			return o, usagef("status shows versions as TERM.SEQ", "--expect %s: want TERM.SEQ", text)
		}
		o.Expect = &v
	}
	return o, nil
}

func (m move) carryOut(t *task, std streams) error {
	next, err := m.plan(t)
	if err != nil {
		return err
	}

	if m.effect != nil {
		if effect := m.effect(t.assessment, next); effect != "" {
			say(std.err, "%s: %s\n", t.policy(), effect)
		}
	}
	if refused := status.RollbackRefused(t.assessment); m.ignoresEvidence && refused != "" && !t.forced() {
		return statusf(exitNotMet, "%s", folded(fmt.Sprintf("%s is not rolled back: %s\n--force rolls back all the same\nnext: %s",
			humanize.Printable(t.policy()), refused, status.RepairCommand(t.assessment))))
	}

	state, err := m.do(t.cli.Context, t)
	if err != nil {
		return refusedMove(t.policy(), err)
	}
	o := outcome{Policy: t.policy(), Joint: t.joint, state: state, earlier: noteEarlierMove(t, state, std), start: t.start, wasAway: t.wasAway}
	if m.ignoresEvidence {
		o.rolledBack(t.assessment)
	}

	// The expected state has been replaced. A rollback that is stored again after a failover must
	// not wait for it to come back.
	o.order = t.order
	o.order.Expect = nil
	return awaitFleet(t.cli, t.fleet, &o, std)
}

// plan returns the state that a task would lead to, unless something forbids it. A dry run comes
// before the conditions: an impossible move is refused as such, and not as one that may be
// possible later.
func (m move) plan(t *task) (stages.State, error) {
	dry := *t
	dry.order.DryRun = true
	next, err := m.do(t.cli.Context, &dry)
	t.wasAway = dry.wasAway
	if err != nil {
		return next, refusedMove(t.policy(), err)
	}

	if m.check != nil && !t.forced() {
		if err := m.check(t); err != nil {
			return next, statusError{exitNotMet, err}
		}
	}
	return next, nil
}

// noteEarlierMove says so, and returns true, if a state was reached by another order: an earlier one
// had the same effect, and nothing was moved.
func noteEarlierMove(t *task, s stages.State, std streams) bool {
	if s.Actor == t.order.Actor && s.Reason == t.order.Reason {
		return false
	}

	// No order has led to it, and no instance enforces the candidate by it.
	if s.Unreadable() {
		say(std.err, "%s: %s, which every instance takes for %s, and nothing was stored: to begin again, "+
			"shadowlimit resume %s --reason WHY\n", t.policy(), s.Reason, s.Describe(), humanize.ShellWord(t.policy()))
		return true
	}
	say(std.err, "%s\n", clip(fmt.Sprintf("%s was %s already, by %s: %s",
		t.policy(), s.Describe(), humanize.Printable(s.Actor), humanize.Printable(s.Reason)), humanize.PageFor(std.err).Columns()))
	return true
}
