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

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// orderFlags are those of all commands that change a policy's stage.
func orderFlags(more ...cli.Flag) []cli.Flag {
	return fleetFlags(append([]cli.Flag{
		&cli.StringFlag{Name: "reason", Usage: "`WHY`, for the audit trail"},
		&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "how long to wait for all instances"},
		&cli.StringFlag{Name: "expect", Usage: "do nothing unless the state is `TERM.SEQ`, as status shows it"},
		&cli.BoolFlag{Name: "yes", Usage: "do not ask, whatever it is"},
		&cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and do nothing"},
	}, more...)...)
}

// move is a command that changes a policy's stage.
type move struct {
	needsReason bool
	// dangerous moves have to be confirmed though they are not forced.
	dangerous bool
	// blind moves are made whatever the evidence, even if it cannot be read.
	blind bool
	// check says what is against the move; force may overrule it.
	check func(*promotion.Assessment) error
	do    func(context.Context, *fleet, *cli.Context, *promotion.Assessment, promotion.Order) (promotion.State, error)
}

func (m move) action(io streams) cli.ActionFunc {
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
		return m.carryOut(c, f, a, order, io)
	})
}

// order reads the flags of an order.
func (m move) order(c *cli.Context) (promotion.Order, error) {
	o := promotion.Order{Actor: actor(), Reason: strings.TrimSpace(c.String("reason")), Force: c.Bool("force"), DryRun: c.Bool("dry-run")}
	switch {
	case o.Reason == "" && (m.needsReason || o.Force):
		return o, usagef("say why, for whoever reads the audit trail: --reason TEXT", "%s needs a reason", c.Command.Name)
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

func (m move) carryOut(c *cli.Context, f *fleet, a *promotion.Assessment, order promotion.Order, io streams) error {
	planned := order
	planned.DryRun = true
	next, err := m.do(c.Context, f, c, a, planned) // what is impossible is said before what is not yet due
	if err != nil {
		return statusOf(err)
	}
	if m.check != nil && !order.Force {
		if err := m.check(a); err != nil {
			return statusError{exitNotMet, err}
		}
	}
	if order.DryRun {
		if tellOld(a.Spec.Policy, next, order, io) && !f.json {
			return nil
		}
		return dryRun(a.Spec.Policy, next, f.json, io)
	}
	if (order.Force || m.dangerous) && !c.Bool("yes") {
		if err := confirm(c.Context, a.Spec.Policy, next, io); err != nil {
			return err
		}
	}
	start := time.Now()
	state, err := m.do(c.Context, f, c, a, order)
	if err != nil {
		return statusOf(err)
	}
	tellOld(a.Spec.Policy, state, order, io)
	return f.settle(c, &moved{Policy: a.Spec.Policy, state: state, order: order, start: start}, io)
}

// tellOld says so if a state is not the order's: nothing had to be moved.
func tellOld(policy string, s promotion.State, order promotion.Order, io streams) bool {
	if s.Actor == order.Actor && s.Reason == order.Reason {
		return false
	}
	fmt.Fprintf(io.err, "%s was %s already, by %s: %s\n", policy, s.Describe(), s.Actor, s.Reason)
	return true
}

// dryRun says what would be done.
func dryRun(policy string, next promotion.State, asJSON bool, io streams) error {
	if asJSON {
		return writeJSON(io.out, map[string]any{
			"policy": policy, "dry_run": true, "from": next.From, "stage": next.Stage, "percent": next.Percent, "hold": next.Hold, "term": next.Term, "seq": next.Seq,
		})
	}
	_, err := fmt.Fprintf(io.out, "would move %s from %s to %s, version %s\n", policy, next.From, next.Describe(), next.Version)
	return err
}

// confirm asks a person at a terminal to type the policy's name.
func confirm(ctx context.Context, policy string, next promotion.State, io streams) error {
	in, ok := io.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fmt.Fprintf(io.err, "This moves %s from %s to %s. Type its name, %s, to go on: ", policy, next.From, next.Describe(), policy)
	answer := bufio.NewScanner(interruptible(ctx, in))
	if answer.Scan() && strings.TrimSpace(answer.Text()) == policy {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return statusError{exitNotMet, errors.New("not confirmed: nothing was done")}
}

// moved is what the commands that change a stage report.
type moved struct {
	Policy  string   `json:"policy"`
	Stage   string   `json:"stage"`
	Percent float64  `json:"percent"`
	Hold    bool     `json:"hold"`
	Term    int64    `json:"term"`
	Seq     int64    `json:"seq"`
	Applied []string `json:"applied"` // instances that have it
	Missing []string `json:"missing"` // live instances that have not
	Silent  []string `json:"silent"`  // not heard of: gone, or cut off
	Other   []string `json:"other"`   // live instances of another configuration
	Seconds float64  `json:"seconds"`

	state   promotion.State
	order   promotion.Order
	start   time.Time
	ordered time.Time // by the store's clock, no earlier than the order was given
}

// settleEvery is how often instances are asked.
const settleEvery = 50 * time.Millisecond

// settle waits until every live instance has applied a state, and reports who has
// not. A store that does not answer meanwhile may be failing over.
func (f *fleet) settle(c *cli.Context, m *moved, io streams) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	m.sort(nil, nil, promotion.Version{})
	for {
		settled, err := m.round(c.Context, f)
		if settled {
			return m.write(io.out, f.json)
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			if err := c.Context.Err(); err != nil {
				return err
			}
			return m.giveUp(err, f.json, io)
		}
	}
}

// round asks who has applied the state, and keeps a rollback from being lost.
func (m *moved) round(ctx context.Context, f *fleet) (settled bool, err error) {
	if err := m.ask(ctx, f); err != nil {
		return false, err
	}
	if m.state.Stage == promotion.RolledBack {
		before := m.state.Version
		if m.state, err = promotion.Insist(ctx, f.store, m.Policy, m.state, m.ordered, m.order); err != nil || m.state.Version != before {
			return false, err
		}
	}
	m.Seconds = time.Since(m.start).Seconds()
	return len(m.Missing) == 0, nil
}

// giveUp reports what has come of a move that not everybody has applied in time; err
// is what the store said last.
func (m *moved) giveUp(err error, asJSON bool, io streams) error {
	m.Seconds = time.Since(m.start).Seconds()
	if err := m.write(io.out, asJSON); err != nil {
		return err
	}
	if err != nil {
		return statusError{exitTimeout, fmt.Errorf("%s was stored, but after %.1f s it is not known who has applied it: %w", m.state.Describe(), m.Seconds, err)}
	}
	return statusError{exitTimeout, fmt.Errorf("%s is stored, but after %.1f s not applied by %s; they will apply it when they hear of it", m.state.Describe(), m.Seconds, strings.Join(m.Missing, ", "))}
}

// ask finds out which instances have applied the state.
func (m *moved) ask(ctx context.Context, f *fleet) error {
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	all, err := f.store.Instances(ctx)
	if err != nil {
		return err
	}
	stored, err := f.store.States(ctx, []string{m.Policy}) // asked last, it is behind an instance only after a failover
	if err != nil {
		return err
	}
	if m.ordered.IsZero() {
		m.ordered = now
	}
	live, silent := promotion.LiveAt(now, m.Policy, all)
	m.sort(live, silent, stored[0].Version)
	return nil
}

// sort sorts the instances by whether they have applied the state. One that is ahead
// of the store will tell it what it has forgotten: until then nothing is settled.
func (m *moved) sort(live, silent []promotion.Instance, stored promotion.Version) {
	m.Applied, m.Missing, m.Silent, m.Other = []string{}, []string{}, []string{}, []string{}
	for _, i := range live {
		has := i.Policies[m.Policy]
		if has.Epoch != m.state.Epoch {
			m.Other = append(m.Other, i.ID)
		}
		if has.Version.Before(m.state.Version) || stored.Before(has.Version) {
			m.Missing = append(m.Missing, i.ID)
		} else {
			m.Applied = append(m.Applied, i.ID)
		}
	}
	for _, i := range silent {
		m.Silent = append(m.Silent, i.ID)
	}
}

func (m *moved) write(out io.Writer, asJSON bool) error {
	s := m.state
	m.Stage, m.Percent, m.Hold, m.Term, m.Seq = string(s.Stage), s.Percent, s.Hold, s.Term, s.Seq
	if asJSON {
		return writeJSON(out, m)
	}
	fmt.Fprintf(out, "%s: %s -> %s, version %s\n", m.Policy, s.From, s.Describe(), s.Version)
	switch {
	case m.ordered.IsZero(): // nobody could be asked
	case len(m.Applied)+len(m.Missing) == 0:
		fmt.Fprintln(out, "no instance is live: they apply it when they start")
	default:
		fmt.Fprintf(out, "%d/%d applied in %.1f s\n", len(m.Applied), len(m.Applied)+len(m.Missing), m.Seconds)
	}
	for _, list := range []struct {
		what string
		ids  []string
	}{{"not applied", m.Missing}, {"silent, presumed gone", m.Silent}, {"of another configuration, enforces the authoritative", m.Other}} {
		for _, id := range list.ids {
			fmt.Fprintf(out, "  %s: %s\n", list.what, id)
		}
	}
	return nil
}
