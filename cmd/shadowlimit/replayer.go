package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/suggest"
)

// replayer carries out a replay.
type replayer struct {
	*replayOptions
	std streams
	bar *progress
}

// run reads the logs and replays every comparison of the subject.
func (r *replayer) run(ctx context.Context) (*replay.Report, error) {
	s, err := r.subject()
	if err != nil {
		return nil, err
	}
	if err := r.checkPolicies(s); err != nil {
		return nil, err
	}

	// A store that cannot be used is reported before gigabytes of log are read.
	open, closeStore, err := r.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStore()

	taken, err := r.take(ctx, s)
	if err != nil {
		return nil, err
	}
	report := s.intake().report()
	report.SkippedLines, report.Warnings = taken.skipped, taken.warnings
	r.broken = taken.broken
	list, _ := named(s.comparisons(), r.policy) // the name is known by now
	return report, r.compare(ctx, list, open, taken.stretches.Live, report)
}

// taken is what the logs have brought, besides events.
type taken struct {
	*logsRead
	stretches replay.Stretches
	warnings  []string
}

// take reads the logs into the subject, and says on the standard error what of them looks wrong.
func (r *replayer) take(ctx context.Context, s subject) (*taken, error) {
	read, err := r.readLogs(ctx, func(e accesslog.Event) {
		s.add(ctx, e)
	})
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.reads().refuse(), r.observed.refuse()); err != nil {
		return nil, err
	}

	in := s.intake()
	if in.failed > 0 {
		r.bar.clear()
		requests := humanize.Counted(in.failed, "request")
		say(r.std.err, "%s %s; the first: %v\n", requests, in.consequence, in.failure)
	}

	t := &taken{logsRead: read, stretches: in.presence.Stretches()}
	t.warnings = slices.Concat(t.stretches.Warnings(), read.warnings(r.reader), s.reads().warnings(), r.keyWarnings(s.charged(), read),
		levelWarnings(s.comparisons()))
	for _, warning := range t.warnings {
		r.bar.clear()
		say(r.std.err, "warning: %s\n", warning)
	}
	for _, text := range read.broken {
		t.warnings = append(t.warnings, "not read to its end: "+text)
	}
	return t, nil
}

// compare replays comparisons and adds them to a report. Each is a replay of its own, with a pair of its own, which the policies
// that are charged together with it are charged in, too.
func (r *replayer) compare(
	ctx context.Context, list []comparison, open openPair, live []evidence.Span, report *replay.Report,
) (err error) {
	decisions, closeDecisions, err := createFile(r.decisionsFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDecisions()) }()

	for i := range list {
		c := &list[i]
		if c.events.Len() == 0 && report.Requests > 0 {
			r.noteUncharged(c, report.Requests)
		}

		cfg := r.configOf(c)
		cfg.Live, cfg.Decisions = live, decisions
		cfg.Progress = func(judged, total int) {
			r.bar.show("replaying policy "+c.name, int64(judged), int64(total))
		}

		if cfg.Pair, err = open(); err != nil {
			return err
		}
		one, err := r.replayOne(ctx, c, cfg)
		if err != nil {
			return fmt.Errorf("policy %s: %w", c.name, err)
		}
		if r.sweep != nil {
			if one.Policies[0].Sweep, err = r.sweepOf(ctx, c, cfg); err != nil {
				return fmt.Errorf("policy %s: %w", c.name, err)
			}
		}
		r.judgeModel(&one.Policies[0], cfg.Gate, report)
		report.Join(one)
	}
	return nil
}

func (r *replayer) replayOne(ctx context.Context, c *comparison, cfg replay.Config) (*replay.Report, error) {
	if c.listed == nil {
		return replay.Run(ctx, c.events, cfg)
	}
	if r.sweep != nil {
		return nil, errors.New("it is charged together with others, and a sweep replays each candidate by itself: take it off the list of together")
	}

	var own int
	var events []*replay.Events
	var cfgs []replay.Config
	for n := range c.listed {
		other := &c.listed[n]
		events = append(events, other.events)
		if other.name != c.name {
			cfgs = append(cfgs, replay.Config{Policy: other.name, Sides: other.sides, Settles: other.settles})
			continue
		}
		own, cfgs = n, append(cfgs, cfg)
	}
	return replay.RunListed(ctx, own, events, cfgs)
}

// noteUncharged says that a policy has nothing to compare. The gate's advice, to send traffic, is for a
// service; a log often lacks the header or the route that the policy asks for.
func (r *replayer) noteUncharged(c *comparison, requests int64) {
	r.bar.clear()
	say(r.std.err, "policy %s charges none of %s: its condition is false, or an expression fails; "+
		"check that the log has every field that the policy reads, and try one request with shadowlimit explain\n",
		c.name, humanize.Counted(requests, "request"))
	if text := c.refusals.String(); text != "" {
		say(r.std.err, "policy %s: %s\n", c.name, text)
	}
}

// sweepOf judges the candidates of a comparison.
func (r *replayer) sweepOf(ctx context.Context, c *comparison, cfg replay.Config) (*replay.SweepReport, error) {
	candidates := r.swept()
	texts := make([]string, len(candidates))
	for i, numbers := range candidates {
		texts[i] = c.texts[algorithms.Candidate] + " with " + numbers.String()
		if c.limit != nil {
			texts[i] = c.sides[algorithms.Candidate].Algorithm.Name() + ":" + numbers.Of(*c.limit).String()
		}
	}

	cfg.Progress = func(judged, total int) {
		r.bar.show("sweeping policy "+c.name, int64(judged), int64(total))
	}
	return replay.Sweep(ctx, c.events, cfg, candidates, texts)
}

// judgeModel warns of a verdict on a model that does not decide as the log says.
func (r *replayer) judgeModel(p *replay.PolicyReport, cfg gate.Config, report *replay.Report) {
	if p.Observed == nil {
		return
	}
	if text := p.Observed.Warning(p.Name, cfg); text != "" {
		r.bar.clear()
		say(r.std.err, "warning: %s\n", text)
		report.Warnings = append(report.Warnings, text)
	}
}

// suggest reads the logs and makes proposals of them.
func (r *replayer) suggest(ctx context.Context, touch float64) (*suggest.Report, error) {
	s := newSuggestSubject(r.key, r.requests())
	taken, err := r.take(ctx, s)
	if err != nil {
		return nil, err
	}
	r.broken = taken.broken

	report, err := suggest.Of(ctx, s.kept, touch)
	if err != nil {
		return nil, err
	}
	read := s.in.report()
	report.First, report.Last = read.First, read.Last
	report.Skipped, report.Warnings = taken.skipped, append([]string{}, taken.warnings...) // a list in JSON, where there are none, too
	return report, nil
}

// readLogs hands on the events of all logs, and counts the lines that it skips. A broken log ends neither the others nor
// its own events before the break: the caller says so at the end.
func (r *replayer) readLogs(ctx context.Context, emit func(accesslog.Event)) (*logsRead, error) {
	read := &logsRead{}
	var first error
	for _, name := range r.logs {
		result, err := r.readLog(ctx, name, r.configFor(name, read), emit)
		read.events += result.Events
		read.lines += result.Lines
		read.results, read.names = append(read.results, result), append(read.names, name)

		if wrong := (accesslog.NoEffectError{}); errors.As(err, &wrong) {
			return nil, usagef(replayHint, "%v", err)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if err == nil && result.Events == 0 && result.Lines > 0 && len(r.logs) > 1 {
			err = fmt.Errorf("%s: none of %d lines could be read", name, result.Lines)
		}
		if err != nil {
			first = cmp.Or(first, err)
			read.broken = append(read.broken, err.Error())
		}
	}

	if read.skipped > shownBadLines {
		r.bar.clear()
		say(r.std.err, "and %d more skipped lines\n", read.skipped-shownBadLines)
	}
	switch {
	case read.events > 0:
		return read, cmp.Or(r.checkZone(read), r.checkProxies(read))
	case first != nil:
		return nil, first
	case read.lines == 0:
		return nil, fmt.Errorf("%s: empty: it has no requests", r.logs[0])
	}
	return nil, fmt.Errorf("%s: none of %d lines could be read: give %s", r.logs[0], read.lines, strings.Join(read.flags, " and "))
}

// configFor is how a log is read: bad lines are counted, and the first few of all logs are shown.
func (r *replayer) configFor(name string, read *logsRead) accesslog.Config {
	cfg := r.reader
	cfg.OnBadLine = func(bad accesslog.BadLine) {
		flags := []string{"--format"}
		if unnamed := (*accesslog.FieldError)(nil); errors.As(bad.Err, &unnamed) {
			flags = unnamed.Flags
		}
		for _, flag := range flags {
			if !slices.Contains(read.flags, flag) {
				read.flags = append(read.flags, flag)
			}
		}
		if read.skipped++; read.skipped <= shownBadLines {
			r.bar.clear()
			say(r.std.err, "%s:%d: skipped: %v: %s\n", name, bad.Line, bad.Err, bad.Text)
		}
	}
	return cfg
}

// checkZone refuses a zone that no time has asked for.
func (r *replayer) checkZone(read *logsRead) error {
	zoned := slices.ContainsFunc(read.results, func(result accesslog.Result) bool { return result.Zoned })
	if r.reader.Zone != nil && !zoned {
		return usagef("leave it out", "--time-zone %s has no effect: every time of the log has its zone", r.reader.Zone)
	}
	return nil
}

// checkProxies refuses proxies that no line has come through.
func (r *replayer) checkProxies(read *logsRead) error {
	proxied := slices.ContainsFunc(read.results, func(result accesslog.Result) bool { return result.Proxied > 0 })
	if r.reader.Client != nil && !proxied {
		return usagef("leave it out, or name the addresses that the log has for its peers",
			"--trusted-proxies has no effect: no line has such a peer with a client in X-Forwarded-For")
	}
	return nil
}

// readLog reads one log. The name "-" is standard input.
func (r *replayer) readLog(
	ctx context.Context, name string, cfg accesslog.Config, emit func(accesslog.Event),
) (accesslog.Result, error) {
	in, size, err := openLog(ctx, name, r.std.in)
	if err != nil {
		return accesslog.Result{}, err
	}
	defer in.Close()

	// The context and the terminal are looked at now and then: for every line they cost too much.
	const every = 8192
	counted := &countingReader{Reader: in}
	read := 0
	return accesslog.Read(counted, name, cfg, func(e accesslog.Event) error {
		emit(e)
		if read++; read%every != 0 {
			return nil
		}
		r.bar.show("reading "+name, counted.n, size)
		return ctx.Err()
	})
}

// keyWarnings say which keys look wrong: one that has most requests, and clients that are no addresses.
func (r *replayer) keyWarnings(policies []charged, read *logsRead) (list []string) {
	for _, c := range policies {
		if slices.Contains(c.checks.Keys(), "") {
			list = append(list, fmt.Sprintf("policy %s: some requests have an empty key, so all of them are one client: check --key-field or --key",
				c.name))
		}

		key, n := c.checks.Busiest()
		if all := int64(c.checks.Len()); c.keyVaries && all >= fewEvents && float64(n) > largeShare*float64(all) {
			list = append(list, fmt.Sprintf("policy %s: one key, %s, has %s of %s: check that the key is the one that is meant",
				c.name, humanize.Printable(key), humanize.Percent(float64(n)/float64(all)), humanize.Counted(all, "request")))
		}
	}

	// Only where every key is a client can its form be wrong.
	byClient := !slices.ContainsFunc(read.results, func(result accesslog.Result) bool {
		return result.Events > 0 && !result.Format.ByClient()
	})
	if hasOwnKeys := r.config != "" || r.key != nil; hasOwnKeys || !byClient {
		return list
	}
	for _, c := range policies {
		var strange []string
		for _, key := range c.checks.Keys() {
			if _, err := netip.ParseAddr(key); err != nil {
				strange = append(strange, key)
			}
		}
		if len(strange) > 0 {
			list = append(list, fmt.Sprintf("%s of %d are no addresses, such as %s: check that a line of the log begins with the client",
				humanize.Counted(int64(len(strange)), "key"), len(c.checks.Keys()), humanize.Printable(slices.Min(strange))))
		}
	}
	return list
}

// print prints the report, and fails where it is not of the whole log.
func (r *replayer) print(report any, text func(io.Writer) error) error {
	r.bar.clear()
	if err := r.format.print(r.std.out, report, text); err != nil {
		return err
	}
	return r.unread()
}
