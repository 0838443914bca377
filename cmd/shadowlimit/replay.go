package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const replayDescription = `Runs both limiters over past traffic, in virtual time, and reports what the
candidate (--to) would have done differently from the authoritative (--from).
Nothing is deployed and nothing is changed.

Limiters: fixed_window, fixed_window_anchored, sliding_window_log,
sliding_window_counter, token_bucket, leaky_bucket, gcra, each written as
name:REQUESTS/WINDOW, buckets with :burst=N. Windows take us ms s m h d.

Logs: common and combined access logs, JSON lines and CSV with a header line,
plain or gzip, "-" for standard input. The key is the client address, the field
--key-field, or what --key makes of the request. Lines need not be in the order of
time.

With --config the requests of the log are charged by a policy file. A log tells
method, path, query, ip, user, and of the headers referer and user-agent; JSON
lines and CSV what they have under the names method, path, route, host, query, ip,
user, size and headers.NAME. The route is the path unless the log has one.

The gate judges the candidate as it would at the end of the log: pass, wait, fail
or insufficient_evidence, with its reason. --require-pass makes it the exit status.
The report also says when, on the way there, it would first have passed or failed,
lists the strikes, and proposes thresholds from what the candidate did.

Examples:
  shadowlimit replay --from fixed_window:20/1m --to sliding_window_counter:20/1m sample/elastic-2015.access.log.gz
  shadowlimit replay --from token_bucket:60/1m:burst=20 --to gcra:60/1m:burst=20 -o json sample/elastic-2015.access.log.gz
  shadowlimit replay --from gcra:60/1m --to gcra:30/1m --key 'ipGroup(request.ip)' sample/elastic-2015.access.log.gz
  shadowlimit replay --config cmd/shadowlimit/demo.yaml sample/elastic-2015.access.log.gz
  zcat sample/*.log.gz | shadowlimit replay --from fixed_window:20/1m --to token_bucket:20/1m:burst=10 -`

func replayCommand(io streams) *cli.Command {
	return &cli.Command{
		Name:        "replay",
		Usage:       "run both limiters over an access log and report how they differ",
		ArgsUsage:   "LOG...",
		Description: replayDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "policy `FILE`, in place of --from and --to"},
			&cli.StringFlag{Name: "from", Usage: "the authoritative `LIMITER`, today's"},
			&cli.StringFlag{Name: "to", Usage: "the candidate `LIMITER`, tomorrow's"},
			&cli.StringFlag{Name: "key", Usage: "the key as a CEL `EXPRESSION` of the request, as in policies"},
			&cli.StringFlag{Name: "format", Value: "auto", Usage: "of the logs: auto, common, combined, jsonl or csv"},
			&cli.StringFlag{Name: "time-field", Usage: "`FIELD` of the time: RFC 3339 or a number, its unit by the name's ending _ns _us _ms _s or else by size (default: time, t_ns, t_us, t_ms or t_s)"},
			&cli.StringFlag{Name: "key-field", Usage: "`FIELD` of the key (default: key)"},
			&cli.StringFlag{Name: "cost-field", Usage: "`FIELD` of the cost; absent is 1 (default: cost)"},
			&cli.StringFlag{Name: "decisions", Usage: "write every decision to `FILE`, one JSON object a line"},
			&cli.BoolFlag{Name: "require-pass", Usage: "exit with status 3 unless the gate's verdict is pass"},
			&cli.StringFlag{Name: "soak", Usage: "clean `TIME` that the gate asks for (default: 48h)"},
			&cli.StringFlag{Name: "block", Usage: "least `TIME` of a block of evidence (default: 1h)"},
			&cli.StringFlag{Name: "divergence", Usage: "threshold `PERCENT` of all comparisons (default: 2%)"},
			&cli.StringFlag{Name: "newly-denied", Usage: "threshold `PERCENT` of what the authoritative allows (default: 2%)"},
			&cli.StringFlag{Name: "newly-allowed", Usage: "threshold `PERCENT` of what the authoritative denies (default: 50%)"},
			&cli.StringFlag{Name: "store", Value: "memory", Usage: "where the limiters keep their state: memory or redis"},
			redisFlag(),
			outputFlag(),
		},
		Action: func(c *cli.Context) error { return replayAction(c, io) },
	}
}

func redisFlag() cli.Flag {
	return &cli.StringFlag{Name: "redis", EnvVars: []string{"SHADOWLIMIT_REDIS"}, Usage: "`URL` of Redis"}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text or json"}
}

func replayAction(c *cli.Context, io streams) error {
	options, err := replayOptionsOf(c)
	if err != nil {
		return err
	}
	return options.run(c.Context, io)
}

// replayOptions are the checked flags of replay.
type replayOptions struct {
	logs          []string
	sides         [2]algorithms.Side
	reader        accesslog.Config
	config        string
	key           *policies.KeyExpression // nil: the log's field
	store, redis  string
	decisionsFile string
	gate          gate.Config
	requirePass   bool
	json          bool
}

func replayOptionsOf(c *cli.Context) (o replayOptions, err error) {
	const hint = "see: shadowlimit replay --help"
	o = replayOptions{
		logs: c.Args().Slice(), config: c.String("config"), store: c.String("store"), redis: c.String("redis"),
		decisionsFile: c.String("decisions"), requirePass: c.Bool("require-pass"), json: c.String("output") == "json",
		reader: accesslog.Config{Fields: accesslog.Fields{Time: c.String("time-field"), Key: c.String("key-field"), Cost: c.String("cost-field")}},
	}
	switch {
	case o.config != "" && (c.IsSet("from") || c.IsSet("to")):
		return o, usagef(hint, "--config has the limiters: leave out --from and --to")
	case o.config != "" && c.IsSet("key"):
		return o, usagef(hint, "--config has the keys: leave out --key")
	case c.IsSet("key") && c.IsSet("key-field"):
		return o, usagef(hint, "--key and --key-field: want one of them")
	case o.decisionsFile == "-":
		return o, usagef("name a file; standard output has the report", "--decisions -: want a file")
	case o.config != "" && o.decisionsFile != "":
		return o, usagef(hint, "--decisions is for one policy: use it with --from and --to")
	case o.config == "" && (c.String("from") == "" || c.String("to") == ""):
		return o, usagef(shortFormHint, "replay needs both --from and --to, or --config")
	case len(o.logs) == 0:
		return o, usagef("name log files, or - for standard input", "replay needs a log")
	case c.String("output") != "json" && c.String("output") != "text":
		return o, usagef(hint, "-o %s: want text or json", c.String("output"))
	case o.store != "memory" && o.store != "redis":
		return o, usagef(hint, "--store %s: want memory or redis", o.store)
	}
	if o.reader.Format, err = accesslog.ParseFormat(c.String("format")); err != nil {
		return o, usagef(hint, "--format: %v", err)
	}
	if o.gate, err = gateFlags(c); err != nil || o.config != "" {
		return o, err
	}
	if o.sides[algorithms.Authoritative], err = parseSide("from", c.String("from")); err != nil {
		return o, err
	}
	if o.sides[algorithms.Candidate], err = parseSide("to", c.String("to")); err != nil || !c.IsSet("key") {
		return o, err
	}
	if o.key, err = policies.ParseKey("--key", c.String("key")); err != nil {
		return o, usagef(`such as 'request.headers[?"x-tenant"].orValue("none")'`, "%v", err)
	}
	return o, nil
}

// gateOf is what a policy says, where no flag says otherwise.
func (o replayOptions) gateOf(policy gate.Config) gate.Config {
	for _, pair := range []struct{ flag, policy *float64 }{
		{&o.gate.Divergence, &policy.Divergence}, {&o.gate.NewlyDenied, &policy.NewlyDenied}, {&o.gate.NewlyAllowed, &policy.NewlyAllowed},
	} {
		*pair.policy = cmp.Or(*pair.flag, *pair.policy)
	}
	policy.Soak, policy.Block = cmp.Or(o.gate.Soak, policy.Soak), cmp.Or(o.gate.Block, policy.Block)
	return policy
}

// gateFlags reads what the gate judges by.
func gateFlags(c *cli.Context) (cfg gate.Config, err error) {
	const hint = "times are whole minutes such as 48h, percentages such as 2%"
	for name, into := range map[string]*time.Duration{"soak": &cfg.Soak, "block": &cfg.Block} {
		text := c.String(name)
		if text == "" {
			continue
		}
		if *into, err = algorithms.ParseWindow(text); err != nil || *into < time.Minute || *into%time.Minute != 0 {
			return cfg, usagef(hint, "--%s %s: want whole minutes", name, text)
		}
	}
	for name, into := range map[string]*float64{"divergence": &cfg.Divergence, "newly-denied": &cfg.NewlyDenied, "newly-allowed": &cfg.NewlyAllowed} {
		text := c.String(name)
		if text == "" {
			continue
		}
		percent, err := parsePercent(text)
		if err != nil || percent >= 100 {
			return cfg, usagef(hint, "--%s %s: want a percentage above 0%% and below 100%%", name, text)
		}
		*into = percent / 100
	}
	if err := cfg.WithDefaults().Validate(); err != nil {
		return cfg, usagef(hint, "%s", strings.TrimPrefix(err.Error(), "gate: "))
	}
	return cfg, nil
}

// parsePercent reads a number above 0 and up to 100 with a percent sign.
func parsePercent(s string) (float64, error) {
	number, found := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !found || !(v > 0 && v <= 100) {
		return 0, fmt.Errorf("%q is not a percentage such as 10%%", s)
	}
	return v, nil
}

func (o replayOptions) run(ctx context.Context, io streams) (err error) {
	bar := newProgress(io.err)
	defer bar.clear()
	replayed := o.replaySides
	if o.config != "" {
		replayed = o.replayPolicies
	}
	report, err := replayed(ctx, io, bar)
	if err != nil {
		return err
	}
	bar.clear()
	if err := writeReport(io.out, report, o.json); err != nil || !o.requirePass {
		return err
	}
	for _, p := range report.Policies {
		if p.Gate.Verdict != gate.Pass {
			return statusError{exitNotMet, fmt.Errorf("the gate says %s of %s: %s", p.Gate.Verdict, p.Name, p.Gate.Reason)}
		}
	}
	return nil
}

// replayPolicies replays the logs through the policies of a file.
func (o replayOptions) replayPolicies(ctx context.Context, io streams, bar *progress) (*replay.Report, error) {
	r, err := openPolicyReplay(o.config)
	if err != nil {
		return nil, err
	}
	o.reader.Requests = true
	requests, skipped, err := scanLogs(ctx, o.logs, o.reader, io, bar, func(e accesslog.Event) { r.add(ctx, e) })
	if err != nil {
		return nil, err
	}
	report, err := r.run(ctx, o, bar)
	if err != nil {
		return nil, err
	}
	if r.failed > 0 {
		bar.clear()
		fmt.Fprintf(io.err, "%s not charged by every policy, for an expression failed; the first: %v\n", humanize.Counted(r.failed, "request"), r.firstErr)
	}
	report.Requests, report.SkippedLines = requests, skipped
	return report, nil
}

// replaySides replays the logs through two limiters.
func (o replayOptions) replaySides(ctx context.Context, io streams, bar *progress) (*replay.Report, error) {
	pair, closePair, err := o.openPair()
	if err != nil {
		return nil, err
	}
	defer closePair()
	read := readLogs
	if o.key != nil {
		read = o.readKeys
	}
	events, skipped, err := read(ctx, o.logs, o.reader, io, bar)
	if err != nil {
		return nil, err
	}
	decisions, closeDecisions, err := createFile(o.decisionsFile)
	if err != nil {
		return nil, err
	}
	report, err := replay.Run(ctx, events, replay.Config{
		Policy: "replay", Sides: o.sides, Pair: pair, Decisions: decisions, Gate: o.gate,
		Progress: func(judged, of int) { bar.show("replaying", int64(judged), int64(of)) },
	})
	if err = errors.Join(err, closeDecisions()); err != nil {
		return nil, err
	}
	report.SkippedLines = skipped
	return report, nil
}

// readKeys reads logs whose keys are an expression's.
func (o replayOptions) readKeys(ctx context.Context, logs []string, reader accesslog.Config, io streams, bar *progress) (*replay.Events, int64, error) {
	events, failed := &replay.Events{}, int64(0)
	var first error
	reader.Requests = true
	_, skipped, err := scanLogs(ctx, logs, reader, io, bar, func(e accesslog.Event) {
		key, err := o.key.Of(requestOf(e))
		if err != nil {
			if failed++; first == nil {
				first = err
			}
			return
		}
		events.Add(e.At, []byte(key), e.Cost)
	})
	if failed > 0 {
		bar.clear()
		fmt.Fprintf(io.err, "%s without a key, left out; the first: %v\n", humanize.Counted(failed, "request"), first)
	}
	return events, skipped, err
}

func writeReport(w io.Writer, report *replay.Report, asJSON bool) error {
	if !asJSON {
		return report.WriteText(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// openPair makes the store. In Redis every replay has a namespace of its own,
// whose keys expire by themselves.
func (o replayOptions) openPair() (algorithms.Pair, func(), error) {
	if o.store == "memory" {
		return algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}), func() {}, nil
	}
	client, err := openRedis(o.redis, commandBudget)
	if err != nil {
		return nil, nil, err
	}
	pair, err := lua.New(client, lua.Config{Name: fmt.Sprintf("replay-%016x", rand.Uint64())})
	return pair, func() { client.Close() }, err
}

// createFile creates the file of that name; "" is none.
func createFile(name string) (io.Writer, func() error, error) {
	if name == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) // not to read: a pipe of our own would never break
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, reason(err))
	}
	return f, f.Close, nil
}
