package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

const historyDescription = `Shows the changes of a policy's stage, oldest first: when, by whom, and why.
The trail keeps the last 1,000; a first line says so where earlier ones are
not kept.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit history per-client`

func historyCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "history",
		Usage:       "show the audit trail of a policy",
		ArgsUsage:   "POLICY",
		Description: historyDescription,
		Flags:       fleetFlags(),
		Action:      withFleet(needsPolicy, func(c *cli.Context, f *fleet) error { return historyAction(c, f, std.out) }),
	}
}

// historyReport is the contract of history -o json.
type historyReport struct {
	Policy  string            `json:"policy"`
	Labels  map[string]string `json:"labels,omitempty"`
	History []transition      `json:"history"`
	// Truncated says that there were earlier changes, which are not kept.
	Truncated bool `json:"truncated"`
}

// transition is one entry of the audit trail.
type transition struct {
	At          time.Time `json:"at"`
	Term        int64     `json:"term"`
	Seq         int64     `json:"seq"`
	From        string    `json:"from"`
	To          string    `json:"to"`
	Stage       string    `json:"stage"`
	Percent     float64   `json:"percent"`
	Hold        bool      `json:"hold"`
	Fingerprint string    `json:"fingerprint"`
	Actor       string    `json:"actor"`
	Reason      string    `json:"reason"`
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

	// The first change of all comes from no stage. Another one had a change before it.
	report := historyReport{Policy: policy, History: transitions(states)}
	if fleet, err := f.store.Fleet(c.Context); err == nil { // labels may be missing, the trail may not
		if spec, announced := fleet.Announced(policy); announced {
			report.Labels = spec.Labels
		}
	}
	report.Truncated = len(states) > 0 && states[0].From != stages.State{}.Describe()
	return f.format.print(out, report, report.writeText)
}

func (r *historyReport) writeText(out io.Writer) error {
	if labels := status.LabelText(r.Labels); labels != "" {
		fmt.Fprintf(out, "labels: %s\n", humanize.Visible(labels))
	}
	switch {
	case r.Truncated && len(r.History) < stages.KeptHistory:
		fmt.Fprintf(out, "Redis has lost the changes before %s: it was emptied or replaced, and the evidence began anew\n",
			stamp(r.History[0].At))
	case r.Truncated:
		fmt.Fprintf(out, "changes before %s are not kept: the trail has the last %s\n",
			stamp(r.History[0].At), humanize.Counted(int64(len(r.History)), "change"))
	}
	return writeTransitions(out, r.History)
}

func transitions(states []stages.State) []transition {
	list := make([]transition, len(states))
	for i := range states {
		list[i] = transitionOf(&states[i])
	}
	return list
}

func transitionOf(s *stages.State) transition {
	return transition{
		At: s.At, Term: s.Term, Seq: s.Seq, From: s.From, To: s.Describe(), Stage: string(s.Stage), Percent: s.Percent,
		Hold: s.Hold, Fingerprint: s.Fingerprint, Actor: s.Actor, Reason: s.Reason, Evidence: s.Evidence,
	}
}

// writeTransitions writes a line for each change, with who and why behind it where there is room, else below it.
func writeTransitions(out io.Writer, list []transition) error {
	page := humanize.PageFor(out)
	text := transitionTable(list, true)
	below := humanize.Wrap(text, page.Columns()) != text
	if below {
		text = transitionTable(list, false)
	}

	for i, line := range slices.Collect(strings.Lines(text)) {
		if i == 0 {
			page.WriteString(line)
			continue
		}
		t := &list[i-1]
		to := "-> " + humanize.Visible(t.To)
		page.WriteString(strings.Replace(line, to, "-> "+stages.Colored(page.Colors, humanize.Visible(t.To)), 1))
		if below {
			fmt.Fprintf(page, "  by %s: %s\n", humanize.Printable(t.Actor), humanize.Printable(t.Reason))
		}
	}
	return page.Show(out)
}

func transitionTable(list []transition, whole bool) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(at, version, move, actor, reason string) {
		fmt.Fprintf(table, "%s\t%s\t%s", at, version, move)
		if whole {
			fmt.Fprintf(table, "\t%s\t%s", actor, reason)
		}
		fmt.Fprintln(table)
	}
	row("time (UTC)", "version", "stage", "by", "reason")
	for _, t := range list {
		row(stamp(t.At), fmt.Sprintf("%d.%d", t.Term, t.Seq), humanize.Visible(t.From)+" -> "+humanize.Visible(t.To),
			humanize.Printable(t.Actor), humanize.Printable(t.Reason))
	}
	table.Flush() // a strings.Builder never fails
	return b.String()
}

// stamp is an instant as it stands in a table or a log.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
