package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const statusDescription = `Shows for each policy, or one, its stage, how the candidate differs, the gate's
verdict with its reason, which instances have applied the stage, and what to do
next. It computes the verdict from the ledger, as the service does.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit status
  shadowlimit status per-client -o json`

func statusCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "show stages, evidence and verdicts of a running service",
		ArgsUsage: "[POLICY]", Description: statusDescription, Flags: fleetFlags(),
		Action: withFleet(func(c *cli.Context, f *fleet) error { return statusAction(c, f, io.out) }),
	}
}

// statusReport is the contract of status -o json.
type statusReport struct {
	Name     string         `json:"name"`
	Policies []policyStatus `json:"policies"`
}

type policyStatus struct {
	Name          string  `json:"name"`
	Stage         string  `json:"stage"`
	Percent       float64 `json:"percent"`
	Hold          bool    `json:"hold"`
	Term          int64   `json:"term"`
	Seq           int64   `json:"seq"`
	Epoch         string  `json:"epoch"`
	Enforced      string  `json:"enforced"`
	Authoritative string  `json:"authoritative"`
	Candidate     string  `json:"candidate"`
	Mode          string  `json:"mode"`
	divergence.Summary
	Gate      promotion.Gate   `json:"gate"`
	Instances []instanceStatus `json:"instances"`
	Alarm     string           `json:"alarm,omitempty"`
	NextStep  string           `json:"next_step"`
}

type instanceStatus struct {
	ID         string  `json:"id"`
	Applied    string  `json:"applied"`
	AgeSeconds float64 `json:"age_seconds"`
	Epoch      string  `json:"epoch"`
	Live       bool    `json:"live"`
	RedButton  bool    `json:"red_button"` // it enforces the authoritative, whatever the stage
}

func statusAction(c *cli.Context, f *fleet, out io.Writer) error {
	if c.NArg() > 1 {
		return usagef("see: shadowlimit status --help", "status takes one policy, got %d", c.NArg())
	}
	list, err := f.assess(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	report := statusReport{Name: f.name}
	for i := range list {
		p, err := f.status(c.Context, &list[i])
		if err != nil {
			return err
		}
		report.Policies = append(report.Policies, p)
	}
	if f.json {
		return writeJSON(out, report)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", report.Name)
	for i := range report.Policies {
		report.Policies[i].writeText(&b)
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// shownKeys is how many keys of each harm status shows.
const shownKeys = 10

func (f *fleet) status(ctx context.Context, a *promotion.Assessment) (policyStatus, error) {
	s := a.State
	p := policyStatus{
		Name: a.Spec.Policy, Stage: string(s.Stage), Percent: s.Percent, Hold: s.Hold, Term: s.Term, Seq: s.Seq, Epoch: s.Epoch,
		Enforced: s.Name(), Authoritative: a.Spec.Authoritative, Candidate: a.Spec.Candidate, Mode: "manual",
		Summary: divergence.Summarize(a.Evidence.History.Total()), Gate: a.Gate, Instances: []instanceStatus{},
	}
	if a.Spec.Config.Automatic {
		p.Mode = "automatic"
	}
	distinct := a.Evidence.History.Distinct
	p.Keys, p.KeysNewlyDenied, p.KeysNewlyAllowed = distinct[divergence.KeysSeen], distinct[divergence.KeysNewlyDenied], distinct[divergence.KeysNewlyAllowed]
	for kind, into := range map[divergence.KeyKind]*[]divergence.KeyCount{divergence.KeysNewlyDenied: &p.TopNewlyDenied, divergence.KeysNewlyAllowed: &p.TopNewlyAllowed} {
		top, err := f.topKeys(ctx, a, kind, a.State.Since)
		if err != nil {
			return p, err
		}
		*into = top[:min(len(top), shownKeys)]
	}
	for _, i := range append(a.Live, a.Silent...) {
		age := a.Evidence.Now.Sub(i.At)
		applied := i.Policies[a.Spec.Policy]
		p.Instances = append(p.Instances, instanceStatus{i.ID, applied.Version.String(), age.Seconds(), applied.Epoch, age <= promotion.LiveFor, i.RedButton})
	}
	p.NextStep, p.Alarm = nextStep(a), a.Alarm
	return p, nil
}

// topKeys returns the keys of a kind from the day of an instant on.
func (f *fleet) topKeys(ctx context.Context, a *promotion.Assessment, kind divergence.KeyKind, from time.Time) ([]divergence.KeyCount, error) {
	const day = 24 * 60 * 60
	return f.ledger.Top(ctx, a.State.LedgerID(a.Spec.Policy), kind, from.Unix()/day, a.Evidence.Now.Unix()/day)
}

// nextStep is the command that would come next.
func nextStep(a *promotion.Assessment) string {
	policy := a.Spec.Policy
	switch notYet := a.NotYet(); {
	case len(a.Evidence.OtherEpoch) > 0:
		return "finish the deployment: another configuration runs on " + strings.Join(a.Evidence.OtherEpoch, ", ")
	case a.Alarm != "":
		return "shadowlimit rollback " + policy + " --reason \"" + a.Alarm + "\""
	case a.State.Stage == promotion.RolledBack && a.State.Epoch == a.State.FailedEpoch:
		return "change a side and deploy that, then: shadowlimit resume " + policy + "; if it was not the candidate's fault: shadowlimit resume " + policy + " --force --reason WHY"
	case a.State.Hold:
		return "shadowlimit resume " + policy
	case a.State.Stage == promotion.Promoted:
		return "nothing; the way back is: shadowlimit rollback " + policy + " --reason WHY"
	case notYet != "" && a.Gate.Verdict == promotion.Pass:
		return "wait: " + notYet
	case notYet != "":
		return "wait, or look at: shadowlimit top " + policy
	case a.Spec.Config.Automatic:
		return "a controller moves it on within the change window"
	}
	return "shadowlimit promote " + policy + " --reason WHY"
}

func (p *policyStatus) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s: %s, version %d.%d, %s\n", p.Name, p.describe(), p.Term, p.Seq, p.Mode)
	fmt.Fprintf(b, "  enforced       %s\n  authoritative  %s\n  candidate      %s\n\n", p.Enforced, p.Authoritative, p.Candidate)
	fmt.Fprintf(b, "%s compared, %s\n", divergence.Counted(p.Comparisons, "request"), divergence.Counted(p.Keys, "key"))
	p.WriteTable(b) // a strings.Builder takes everything
	b.WriteByte('\n')
	p.Gate.WriteText(b)
	p.WriteTop(b)
	b.WriteString("\ninstances\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, i := range p.Instances {
		fmt.Fprintf(table, "  %s\tapplied %s\theard of %s ago\t%s\n", i.ID, i.Applied, seconds(i.AgeSeconds), i.note(p))
	}
	table.Flush()
	if len(p.Instances) == 0 {
		b.WriteString("  none\n")
	}
	if p.Alarm != "" {
		fmt.Fprintf(b, "\nALARM: %s\n", p.Alarm)
	}
	fmt.Fprintf(b, "\nnext: %s\n", p.NextStep)
}

func (p *policyStatus) describe() string {
	return promotion.State{Stage: promotion.Stage(p.Stage), Percent: p.Percent, Hold: p.Hold}.Describe()
}

func (i *instanceStatus) note(p *policyStatus) string {
	switch {
	case !i.Live:
		return "silent: gone, or cut off"
	case i.RedButton:
		return "red button pressed: enforces the authoritative"
	case i.Epoch != p.Epoch:
		return "compares something else"
	case i.Applied != (promotion.Version{Term: p.Term, Seq: p.Seq}).String():
		return "behind"
	}
	return ""
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
