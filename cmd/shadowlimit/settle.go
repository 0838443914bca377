package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

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
			m.warn(io)
			return m.write(io.out, f.json)
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			if err := c.Context.Err(); err != nil {
				fmt.Fprintf(io.err, "%s is stored, version %s; whether all have applied it is not known\n", m.state.Describe(), m.state.Version)
				return err
			}
			return m.giveUp(err, f.json, io)
		}
	}
}

// warn tells of instances that may not have heard of a rollback.
func (m *moved) warn(io streams) {
	if len(m.Silent) > 0 && m.state.Stage == promotion.RolledBack {
		fmt.Fprintf(io.err, "not heard of for over %s: %s; if they still run, cut off from Redis, they may enforce the candidate: press their red button\n", promotion.LiveFor, humanize.Printable(strings.Join(m.Silent, ", ")))
	}
}

// round asks who has applied the state, and keeps a rollback from being lost.
func (m *moved) round(ctx context.Context, f *fleet) (settled bool, err error) {
	if err := m.ask(ctx, f); err != nil {
		return false, err
	}
	if m.state.Stage == promotion.RolledBack {
		before := m.state.Version
		if m.state, err = promotion.EnsureRollback(ctx, f.store, m.Policy, m.state, m.ordered, m.order); err != nil || m.state.Version != before {
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
			fmt.Fprintf(out, "  %s: %s\n", list.what, humanize.Printable(id))
		}
	}
	return nil
}
