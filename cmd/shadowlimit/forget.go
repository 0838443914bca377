package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const forgetDescription = `Removes what Redis keeps of a policy that no policy file has any more: its
announcement, its stage and its history, which never expire. It is refused,
with exit status 3, while a live instance has the policy. The evidence and
the keys' budgets expire by themselves, within 33 days. A policy of that name
that is deployed later starts in shadow.

Example, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit forget per-client   # refused (3) while an instance has it`

func forgetCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "forget",
		Usage:       "remove a policy that no instance has any more",
		ArgsUsage:   "POLICY...",
		Description: forgetDescription,
		Flags:       fleetFlags(labelFlag()),
		Action: withFleet(needsPolicies, func(c *cli.Context, f *fleet) error {
			names, err := namesOfPolicies(c, f)
			if err != nil {
				return err
			}
			return eachPolicy(c, f, names, std, func(policy string, std streams) error { return forgetAction(c, f, policy, std) })
		}),
	}
}

// forgotten is the contract of forget -o json: the kept things of the policy.
type forgotten struct {
	Policy    string `json:"policy"`
	Announced bool   `json:"announced"`
	Stage     string `json:"stage"` // "" if none was stored
	Term      int64  `json:"term"`
	Seq       int64  `json:"seq"`
	Changes   int    `json:"changes"` // of its history, as far as it was kept

	state stages.State
}

func forgetAction(c *cli.Context, f *fleet, policy string, std streams) error {
	kept, err := keptOf(c.Context, f, policy)
	if err != nil {
		return err
	}
	if err := refuseLive(c.Context, f, policy, std); err != nil {
		return err
	}
	if err := f.store.Forget(c.Context, policy); err != nil {
		return err
	}
	return f.format.print(std.out, kept, kept.writeText)
}

// keptOf returns the stored things of a policy, or an error if that is nothing.
func keptOf(ctx context.Context, f *fleet, policy string) (*forgotten, error) {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	states, err := f.store.States(ctx, []string{policy})
	if err != nil {
		return nil, err
	}

	// An entry that cannot be read is to be removed, too.
	history, _ := f.store.History(ctx, policy)
	s := states[0]
	_, announced := fleet.Announced(policy)
	kept := &forgotten{
		Policy: policy, Stage: string(s.Stage), Term: s.Term, Seq: s.Seq, Changes: len(history), state: s,
		Announced: announced,
	}
	if !kept.Announced && s.Stage == "" && len(history) == 0 {
		return nil, fmt.Errorf("%s has no policy %q: nothing is kept of it", f.name, policy)
	}
	return kept, nil
}

// refuseLive refuses a policy that a live instance has: it would write the policy again within a
// second, and lose its history. An instance that is silent would do so if it comes back.
func refuseLive(ctx context.Context, f *fleet, policy string, std streams) error {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return err
	}
	live, silent := fleet.With(policy)
	if len(live) > 0 {
		return statusf(exitNotMet, "not forgotten: still on %s: take the policy out of the policy file first, or stop the service",
			namesOf(live))
	}
	if len(silent) > 0 {
		say(std.err, "no report for over %s from %s, which had the policy and has not left: if it still runs, it writes the "+
			"policy again when it reaches Redis\n", stages.LiveFor, namesOf(silent))
	}
	return nil
}

// namesOf lists the ids of instances for a message, three at most.
func namesOf(list []stages.Instance) string {
	const most = 3
	var names []string
	for _, i := range list[:min(most, len(list))] {
		names = append(names, humanize.Printable(i.ID))
	}
	if more := len(list) - most; more > 0 {
		names = append(names, humanize.Counted(int64(more), "other"))
	}
	return strings.Join(names, ", ")
}

// text names the kept things.
func (r *forgotten) text() string {
	text := humanize.Printable(r.Policy)
	if r.Stage != "" {
		text += ", " + r.state.Describe() + ", version " + r.state.Version.String()
	}
	return text + ", with " + humanize.Counted(int64(r.Changes), "change") + " of its history"
}

func (r *forgotten) writeText(out io.Writer) error {
	_, err := fmt.Fprintf(out, "forgotten: %s; its evidence expires within 33 days\n", r.text())
	return err
}
