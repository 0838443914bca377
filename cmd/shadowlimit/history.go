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

const historyDescription = `Shows every change of a policy's stage, oldest first: when, by whom, and why.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit history per-client`

func historyCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "history",
		Usage:       "show the audit trail of a policy",
		ArgsUsage:   "POLICY",
		Description: historyDescription,
		Flags:       fleetFlags(),
		Action:      withFleet(func(c *cli.Context, f *fleet) error { return historyAction(c, f, std.out) }),
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
	// Evidence is the gate's verdict at that time, in short.
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

	// A policy without history may be new, or a typing error: only an announced one is shown.
	if len(states) == 0 {
		if _, err := f.assess(c.Context, policy); err != nil {
			return err
		}
	}

	report := historyReport{policy, transitions(states)}
	return f.format.print(out, report, func(out io.Writer) error { return writeTransitions(out, report.History) })
}

func transitions(states []promotion.State) []transition {
	list := make([]transition, len(states))
	for i := range states {
		list[i] = transitionOf(&states[i])
	}
	return list
}

func transitionOf(s *promotion.State) transition {
	return transition{
		At: s.At, Term: s.Term, Seq: s.Seq, From: s.From, To: s.Describe(), Stage: string(s.Stage), Percent: s.Percent,
		Hold: s.Hold, Epoch: s.Epoch, Actor: s.Actor, Reason: s.Reason, Evidence: s.Evidence,
	}
}

func writeTransitions(out io.Writer, list []transition) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "time (UTC)\tversion\tstage\tby\treason")
	for _, t := range list {
		fmt.Fprintf(table, "%s\t%d.%d\t%s -> %s\t%s\t%s\n",
			stamp(t.At), t.Term, t.Seq, t.From, t.To, humanize.Printable(t.Actor), humanize.Printable(t.Reason))
	}
	return table.Flush()
}

// stamp is an instant as it stands in a table or a log.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
