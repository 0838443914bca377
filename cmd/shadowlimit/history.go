package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const historyDescription = `Shows every change of a policy's stage: when, by whom, and why, oldest first.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit history per-client`

func historyCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show the audit trail of a policy", ArgsUsage: "POLICY", Description: historyDescription,
		Flags:  fleetFlags(),
		Action: withFleet(func(c *cli.Context, f *fleet) error { return historyAction(c, f, io.out) }),
	}
}

type historyReport struct {
	Policy  string       `json:"policy"`
	History []transition `json:"history"`
}

// transition is one entry of the audit trail.
type transition struct {
	At      time.Time `json:"at"`
	Term    int64     `json:"term"`
	Seq     int64     `json:"seq"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Stage   string    `json:"stage"`
	Percent float64   `json:"percent"`
	Hold    bool      `json:"hold"`
	Epoch   string    `json:"epoch"`
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason"`
	// Evidence is what the gate said at that time, in short.
	Evidence string `json:"evidence,omitempty"`
}

func historyAction(c *cli.Context, f *fleet, out io.Writer) error {
	policy, err := onePolicy(c)
	if err != nil {
		return err
	}
	states, err := f.store.History(c.Context, policy)
	if err != nil {
		return err
	}
	if len(states) == 0 {
		if _, err := f.assess(c.Context, policy); err != nil {
			return err
		}
	}
	report := historyReport{policy, transitions(states)}
	if f.json {
		return writeJSON(out, report)
	}
	return writeTransitions(out, report.History)
}

func transitions(states []promotion.State) []transition {
	list := make([]transition, len(states))
	for i, s := range states {
		list[i] = transition{s.At, s.Term, s.Seq, s.From, s.Describe(), string(s.Stage), s.Percent, s.Hold, s.Epoch, s.Actor, s.Reason, s.Evidence}
	}
	return list
}

func writeTransitions(out io.Writer, list []transition) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "time (UTC)\tversion\tstage\tby\treason")
	for _, t := range list {
		fmt.Fprintf(table, "%s\t%d.%d\t%s -> %s\t%s\t%s\n", t.At.UTC().Format("2006-01-02 15:04:05"), t.Term, t.Seq, t.From, t.To, humanize.Printable(t.Actor), humanize.Printable(t.Reason))
	}
	return table.Flush()
}
