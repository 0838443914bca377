package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/plan"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const planDescription = `Says how long it takes until the gate can pass, for each step of a migration, and what
that time is spent on. A step that can never pass is named with the reason. Nothing is
deployed and nothing is changed.

From a rate (--rate): even traffic, of which the authoritative denies a share (--denied).
The columns are candidates that newly deny nothing, or a fifth, a half and four fifths of
what the threshold allows. With --config every policy of the file that has a candidate is
planned by its own thresholds, soak and canary steps, as if it had that traffic.

From a log (LOG...): both limiters run over the traffic of the log, as in replay. The log
is repeated for as long as evidence is kept, 32 days: by its whole weeks, or else by its
whole days. Migrations begin at up to 168 instants of it. The report says how many of them
reach each step, and after how long. That asks for no assumption about the candidate.

Both use the gate itself. Steps also wait for the change window and for operators, which
a plan does not know. The ledger forgets evidence after 32 days, so a step that has not passed
by then never does.

Examples, from the folder of the repository:
  shadowlimit plan --rate 600/1m
  shadowlimit plan --rate 10/1h --denied 5% --newly-denied 5% --divergence 5%
  shadowlimit plan --rate 2000/1m --config cmd/shadowlimit/internal/demo/demo.yaml
  shadowlimit plan --from fixed_window:20/1m --to fixed_window:19/1m \
      internal/sample/elastic-2015.access.log.gz`

func planCommand(std streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "rate", Usage: "even traffic, as `REQUESTS/TIME` such as 600/1m, in place of a log"},
		&cli.StringFlag{Name: "denied", Usage: "`PERCENT` of it that the authoritative denies (default: 1%)"},
		&cli.Int64Flag{Name: "keys", Usage: "`NUMBER` of keys that the policy has", DefaultText: "enough"},
		&cli.StringFlag{Name: "policy", Usage: "plan only the policy of this `NAME` of the file"},
	}
	for _, list := range [][]cli.Flag{subjectFlags(), logFlags(), gateFlags(), {outputFlag()}} {
		flags = append(flags, list...)
	}
	return &cli.Command{
		Name: "plan", Usage: "say how long until the gate can pass, from a rate of requests or from a log",
		ArgsUsage: "[LOG...]", Description: planDescription, Flags: flags,
		Action: func(c *cli.Context) error { return planAction(c, std) },
	}
}

const planHint = "see: shadowlimit plan --help"

// planConflicts are the combinations of flags and arguments that plan refuses. The first that applies is
// reported.
var planConflicts = []conflict{
	{
		func(c *cli.Context) bool { return c.IsSet("rate") == c.Args().Present() },
		"plan needs --rate REQUESTS/TIME, or a log, and not both", planHint,
	},
	{
		func(c *cli.Context) bool { return !c.IsSet("rate") && (c.IsSet("denied") || c.IsSet("keys")) },
		"--denied and --keys describe a rate: a log shows both", "leave them out, or give --rate in place of the log",
	},
	{
		func(c *cli.Context) bool { return c.IsSet("rate") && anySet(c, "from", "to", "key") },
		"--rate takes no limiters and no keys: it assumes how far they differ", "leave out --from, --to and --key, or name a log",
	},
	{
		func(c *cli.Context) bool {
			return c.IsSet("rate") && anySet(c, logFlagNames...)
		},
		"--rate reads no log: leave out --format and the flags of fields", planHint,
	},
	conflictOfPolicy,
	conflictOfLimiters, conflictOfKeys, conflictOfKeyFields, conflictOfFields, conflictOfMap, conflictOfRoutes,
	{
		func(c *cli.Context) bool { return !c.IsSet("rate") && lacksLimiters(c) },
		"a plan from a log needs both --from and --to, or --config", shortFormHint,
	},
}

func anySet(c *cli.Context, flags ...string) bool {
	for _, flag := range flags {
		if c.IsSet(flag) {
			return true
		}
	}
	return false
}

func planAction(c *cli.Context, std streams) error {
	if err := refuse(c, planConflicts); err != nil {
		return err
	}
	o := &replayOptions{logs: c.Args().Slice(), config: c.String("config"), store: "memory"}
	for _, parse := range []func(*cli.Context) error{o.parseForms, o.parseGate} {
		if err := parse(c); err != nil {
			return err
		}
	}

	planOf := planOfLogs
	if c.IsSet("rate") {
		planOf = planOfRate
	}
	report, err := planOf(c, o, std)
	if err != nil {
		return err
	}
	if err := o.format.print(std.out, report, report.WriteText); err != nil {
		return err
	}
	return o.unread()
}

// planOfRate plans the policies of the file, or one by the flags alone, for even traffic.
func planOfRate(c *cli.Context, o *replayOptions, _ streams) (*plan.Report, error) {
	traffic, err := rateOf(c)
	if err != nil {
		return nil, err
	}

	list := []comparison{{name: "plan", rules: promotion.Config{}.WithDefaults()}}
	if o.config != "" {
		if list, err = comparisonsOf(o.config); err != nil {
			return nil, err
		}
	}
	if list, err = named(list, c.String("policy")); err != nil {
		return nil, err
	}

	report := &plan.Report{Warnings: []string{}}
	for i := range list {
		report.Policies = append(report.Policies, traffic.Policy(list[i].name, o.rulesOf(&list[i])))
	}
	return report, nil
}

// comparisonsOf returns the policies of a file that have a candidate, without events. A limiter of the user's own
// is no obstacle: it decides nothing here.
func comparisonsOf(file string) (list []comparison, err error) {
	set, err := policies.LoadFile(file, shadow.CheckPromotion)
	if err != nil {
		return nil, placed(file, err)
	}
	for _, p := range set.Policies {
		if p.Sides[algorithms.Candidate] != nil {
			list = append(list, comparison{name: p.Name, rules: shadow.PromotionOf(p.Promotion)})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no policy has a candidate: there is nothing to plan", file)
	}
	return list, nil
}

// planOfLogs replays the logs, and plans every comparison from what it has recorded.
func planOfLogs(c *cli.Context, o *replayOptions, std streams) (*plan.Report, error) {
	for _, parse := range []func(*cli.Context) error{o.parseSides, o.parseKey} {
		if err := parse(c); err != nil {
			return nil, err
		}
	}
	r := &replayer{replayOptions: o, std: std, bar: newProgress(std.err)}
	defer r.bar.clear()
	s, err := r.subject()
	if err != nil {
		return nil, err
	}
	if _, err := named(s.comparisons(), c.String("policy")); err != nil {
		return nil, err
	}

	taken, err := r.take(c.Context, s)
	if err != nil {
		return nil, err
	}
	report := &plan.Report{Warnings: taken.warnings}
	list, _ := named(s.comparisons(), c.String("policy")) // the name is known by now
	for i := range list {
		p, err := r.plan(c.Context, &list[i], taken.stretches)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", list[i].name, err)
		}
		report.Policies = append(report.Policies, p)
	}
	o.broken = taken.broken
	return report, nil
}

// plan replays one comparison and plans it.
func (r *replayer) plan(ctx context.Context, c *comparison, stretches replay.Stretches) (plan.Policy, error) {
	cfg := r.configOf(c)
	cfg.Live, cfg.Pair = stretches.Live, algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	cfg.Progress = func(judged, total int) {
		r.bar.show("replaying policy "+c.name, int64(judged), int64(total))
	}

	recording, err := replay.Record(ctx, c.events, cfg)
	if err != nil {
		return plan.Policy{}, err
	}
	return recording.Policy(c.name, r.rulesOf(c))
}

// rulesOf returns what the steps of a comparison wait for.
func (o *replayOptions) rulesOf(c *comparison) plan.Rules {
	return plan.Rules{Gate: o.gate.Or(c.rules.Config), Steps: promotion.Steps(c.rules.Canary), Dwell: c.rules.Dwell}
}

// named returns the comparisons that --policy asks for: one, or all.
func named(list []comparison, policy string) ([]comparison, error) {
	if policy == "" {
		return list, nil
	}
	var names []string
	for i := range list {
		if list[i].name == policy {
			return list[i : i+1], nil
		}
		names = append(names, list[i].name)
	}
	return nil, usagef("its policies with a candidate: "+strings.Join(names, ", "), "--policy %s: no such policy", policy)
}

const rateHint = "write REQUESTS/TIME, such as 600/1m or 10/1h"

// rateOf reads the flags that describe even traffic.
func rateOf(c *cli.Context) (r plan.Rate, err error) {
	text := c.String("rate")
	number, window, found := strings.Cut(text, "/")
	requests, err := parseCount("requests", number, 1)
	if !found {
		err = fmt.Errorf("no time")
	}
	if err != nil {
		return r, usagef(rateHint, "--rate %s: %v", text, err)
	}
	per, err := algorithms.ParseWindow(window)
	if err != nil {
		return r, usagef(rateHint, "--rate %s: %v", text, err)
	}

	r = plan.Rate{Requests: float64(requests) / per.Minutes(), Denied: 0.01, Keys: c.Int64("keys")}
	switch denied, err := thresholdOf(c, "denied"); {
	case err != nil:
		return r, err
	case denied > 0:
		r.Denied = denied
	}
	if c.IsSet("keys") && r.Keys < 1 {
		return r, usagef(planHint, "--keys %d: want at least 1", r.Keys)
	}
	return r, nil
}
