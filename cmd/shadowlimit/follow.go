package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	fleetpkg "github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/follow"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/serve"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const followDescription = `Shadows the limiter of another program, such as nginx, without touching it:
it reads the program's log as it grows, and judges the candidate of each
policy at the instant of each line. --observed says by the response in the
log what the other limiter did, and that is the authoritative. Counts,
conditions and keys go to Redis as those of a service do, so status, top,
history, dashboards and alerts work. It enforces nothing: promote refuses,
and a pass is the word to write the candidate into the other program.

In the policy file write authoritative: { limiter: log } for the log's
answers, or none where there is no limit yet, which needs no --observed.
Whatever else stands there, the log's answers take its place.

nginx logs what limit_req did, for example, by

  log_format shadow escape=json
      '{"time":"$msec","remote_addr":"$remote_addr",'
      '"request":"$request","status":$status,"limited":"$limit_req_status"}';

and --observed 'response.limited == "REJECTED"' reads it. In limit_req's dry
run it is "REJECTED_DRY_RUN".

A log may be rotated by renaming it or by copytruncate, and need not exist
yet. A restart goes on where the last run has stopped, which --state keeps:
no line is counted twice or left out, also after kill -9, if the rest of a
rotated log is still beside it, uncompressed. Lines of more than 110 minutes
ago only fill the candidate's memory. Without --redis the evidence is this
process's own: it begins with the log, is printed at the end, and is gone
then.

Examples, from the folder of the repository:
  shadowlimit follow --config examples/policies/nginx-log.yaml \
      --redis redis://localhost:6379 --state edge.state \
      --observed 'response.limited == "REJECTED"' /var/log/nginx/shadow.log
  zcat internal/sample/*.log.gz | shadowlimit follow \
      --config examples/policies/nginx-log.yaml \
      --observed 'response.status == 429' -   # too old to count: it ends`

func followCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "follow",
		Usage:       "shadow the limiter of a log, until interrupted",
		ArgsUsage:   "LOG...",
		Description: followDescription,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "the policy `FILE` (required); it is read at the start"},
			&cli.StringFlag{Name: "observed", Usage: "CEL `EXPRESSION` of the response that says whether the log's limiter denied " +
				"the request, such as 'response.status == 429'"},
			redisFlag("`URL` of the Redis that keeps evidence and stages"),
			&cli.StringFlag{Name: "state", Usage: "`FILE` with the position in the logs (default: in the user's cache, by name and logs)"},
			&cli.StringSliceFlag{Name: "listen", Usage: "`ADDRESS` HOST:PORT or unix:PATH for /metrics, /status and /healthz; repeatable (default: none)"},
		}, guardFlags(), slices.DeleteFunc(logFlags(), func(f cli.Flag) bool {
			return f.Names()[0] == "key-field" || f.Names()[0] == "cost-field" // the policy file has the keys and the costs
		})),
		Action: func(c *cli.Context) error { return followAction(c, std) },
	}
}

const followHint = "see: shadowlimit follow --help"

// follower carries out follow.
type follower struct {
	set      *policies.Set
	list     []*policies.Policy // that have a candidate
	requests *requests
	observed *observed // nil: every authoritative is none
	lines    int64
	failed   bool // an expression has, and that was said
	log      *slog.Logger
}

func followAction(c *cli.Context, std streams) (err error) {
	o, f, err := followerOf(c, std)
	if err != nil {
		return err
	}
	state, err := stateOf(c, f.set.Name)
	if err != nil {
		return err
	}
	listeners, served, err := followListeners(c)
	if err != nil {
		return err
	}
	closeListeners := func() {
		for _, l := range listeners {
			l.Close()
		}
	}

	var client redis.UniversalClient
	if address := c.String("redis"); address != "" {
		if client, err = openRedis(address, 0); err != nil {
			closeListeners()
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
	}
	made, fleet, err := inside.Follow(f.set, client, f.log)
	if err != nil {
		closeListeners()
		return fmt.Errorf("%s: %w", o.config, err)
	}
	harness := made.(*shadow.Harness)

	follows := follow.New(follow.Config{
		Name: f.set.Name, Logs: o.logs, Stdin: std.in, Reader: o.reader, Charge: f.charge(c.Context), Policies: f.list,
		Generation: f.set.Generation, Fleet: fleet, Start: harness.Start, State: state, Log: f.log,
	})
	served.Limiter, served.Logger, served.Shows, served.Metrics = harness, f.log, true, follows.Metrics()
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	serving := make(chan error, 1)
	if listeners != nil {
		go func() {
			serving <- serve.New(served).Serve(ctx, listeners...)
			stop()
		}()
		for _, l := range listeners {
			say(std.err, "shadowlimit: %s shows /metrics and /status\n", (&serveOptions{server: served}).urlOf(l.Addr()))
		}
	} else {
		serving <- nil
	}
	say(std.err, "shadowlimit: %s follows %s%s\n", f.set.Name, strings.Join(o.logs, ", "), stateText(state))

	err = follows.Run(ctx)
	lines := follows.Lines()
	refused := err != nil && lines == follow.Lines{} // then there is nothing to report
	if !refused {
		f.summary(std, lines)
	}
	if f.lines > 0 && f.lines < warnAfter {
		f.warn()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(c.Context), closeTimeout)
	defer cancel()
	if client == nil && !refused {
		err = errors.Join(err, f.report(last, std, harness, fleet))
	}
	stop()
	return errors.Join(err, <-serving, harness.Close(last))
}

func stateText(state string) string {
	if state == "" {
		return ""
	}
	return ", and keeps its position in " + state
}

// followerOf reads the flags and the policy file.
func followerOf(c *cli.Context, std streams) (*replayOptions, *follower, error) {
	o := &replayOptions{logs: c.Args().Slice(), config: c.String("config")}
	seen := map[string]bool{}
	for _, log := range o.logs {
		if seen[log] {
			return nil, nil, usagef("name each log once", "%s: the log is named twice", log)
		}
		seen[log] = true
	}
	switch {
	case o.config == "":
		return nil, nil, usagef(followHint, "follow needs --config with a policy file")
	case len(o.logs) == 0:
		return nil, nil, usagef("name log files, or - for standard input", "follow needs a log")
	}
	for _, one := range logConflicts {
		if one.applies(c) {
			return nil, nil, usageError{one.message, followHint}
		}
	}
	for _, parse := range []func(*cli.Context) error{o.parseLogs, o.parseObserved} {
		if err := parse(c); err != nil {
			return nil, nil, err
		}
	}

	f := &follower{requests: o.requests(), observed: o.observed, log: slog.New(slog.NewTextHandler(std.err, nil))}
	var err error
	if f.set, err = policies.LoadFile(o.config, stages.Check); err != nil {
		return nil, nil, inFile(o.config, err)
	}
	f.requests.headers = f.set.Reading().Headers
	answers := false
	for _, p := range f.set.Policies {
		if p.Sides[algorithms.Candidate] == nil {
			continue
		}
		if err := f.take(p); err != nil {
			return nil, nil, err
		}
		answers = answers || !p.Sides[algorithms.Authoritative].None()
	}
	switch {
	case f.list == nil:
		return nil, nil, fmt.Errorf("%s: no policy has a candidate: there is nothing to compare", o.config)
	case f.observed != nil && !answers:
		return nil, nil, usagef("leave it out, or write authoritative: { limiter: log }", "--observed has no effect: every policy has authoritative: none")
	}
	return o, f, nil
}

// take takes a policy, whose authoritative becomes the log's answers unless there is none.
func (f *follower) take(p *policies.Policy) error {
	a, candidate := p.Sides[algorithms.Authoritative], *p.Sides[algorithms.Candidate]
	switch {
	case candidate.Custom():
		return fmt.Errorf("policy %s: the candidate is the limiter %q, which your program alone has: write one of ours, such as "+
			"{ algorithm: gcra, limit: 100, window: 1m }", p.Name, candidate.Limiter)
	case p.Settles():
		return fmt.Errorf("policy %s: settle is not carried out by follow: leave it out, or try it by shadowlimit replay", p.Name)
	case a.None():
	case f.observed == nil:
		return usagef("give --observed, such as 'response.status == 429', or write authoritative: none",
			"policy %s: the log says what its limiter did, and nothing says how to read that", p.Name)
	case p.Together() > 0:
		return fmt.Errorf("policy %s: it is charged together with others, and one answer of the log does not say which of them denied: "+
			"take it off the list of together", p.Name)
	default:
		p.Sides[algorithms.Authoritative] = answersOfLog(a, f.observed.text)
		if !a.Logged() {
			f.log.Info("shadowlimit: the log's answers take the place of the authoritative", "policy", p.Name, "authoritative", a.String())
		}
	}

	// The candidate is judged in the memory of this process, wherever a service would keep it.
	candidate.Residence = policies.Residence{}
	p.Sides[algorithms.Candidate] = &candidate
	f.list = append(f.list, p)
	f.requests.expect(p.Inputs())
	return nil
}

// answersOfLog is the authoritative whose answers a log has. What tells a denial is part of it: another expression begins other
// evidence.
func answersOfLog(a *policies.Side, observed string) *policies.Side {
	revision := observed
	if a.Logged() && a.Revision != "1" {
		revision = a.Revision + ": " + observed
	}
	return &policies.Side{Limiter: "log", Revision: revision}
}

// stateOf returns where the position is kept, "" if it is not.
func stateOf(c *cli.Context, name string) (string, error) {
	state := c.String("state")
	files := slices.ContainsFunc(c.Args().Slice(), func(log string) bool { return log != "-" })
	for _, log := range c.Args().Slice() {
		if same, err := sameFile(state, log); err == nil && same {
			return "", usagef("give another file", "--state %s: that is a log", state)
		}
	}
	switch {
	case state != "" && !files:
		return "", usagef("leave it out", "--state: standard input has no position to go on at")
	case state != "" && c.String("redis") == "":
		return "", usagef("give --redis, or leave out --state",
			"--state without --redis: the evidence is this process's own, and a position without it would leave lines out")
	case !files || c.String("redis") == "" || state != "":
		return state, nil
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", usagef("give --state FILE", "no folder for the position: %v", err)
	}
	return follow.DefaultState(folder, name, c.Args().Slice()), nil
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(first, second), nil
}

// followListeners opens the addresses of --listen, none without it.
func followListeners(c *cli.Context) ([]net.Listener, serve.Config, error) {
	o := &serveOptions{addresses: c.StringSlice("listen"), insecure: c.Bool("insecure")}
	if len(o.addresses) == 0 {
		for _, flag := range []string{"token-file", "tls-cert", "tls-key", "insecure"} {
			if c.IsSet(flag) {
				return nil, o.server, usagef("add --listen 127.0.0.1:8429, or leave it out", "--%s has no effect without --listen", flag)
			}
		}
		return nil, o.server, nil
	}
	for _, parse := range []func(*cli.Context) error{o.parseToken, o.parseTLS} {
		if err := parse(c); err != nil {
			return nil, o.server, err
		}
	}
	listeners, err := o.listen()
	return listeners, o.server, err
}

// warnAfter is how many lines must lack a field for a warning.
const warnAfter = 1000

// charge returns what a line charges, and what its limiter did.
func (f *follower) charge(ctx context.Context) func(accesslog.Event) (follow.Answer, []follow.Check) {
	ctx = context.WithoutCancel(ctx) // a line that was read is judged
	return func(e accesslog.Event) (follow.Answer, []follow.Check) {
		request, answer := f.requests.of(e), follow.Unknown
		switch f.observed.of(e) {
		case replay.ObservedAllowed:
			answer = follow.Allowed
		case replay.ObservedDenied:
			answer = follow.Denied
		}

		var checks []follow.Check
		for i, p := range f.list {
			c, matches, err := p.Check(ctx, request)
			if err != nil && !f.failed {
				f.failed = true
				f.log.Warn("shadowlimit: an expression fails; such a line is not charged, and this is not said again", "policy", p.Name, "error", err)
			}
			if matches {
				checks = append(checks, follow.Check{
					Policy: i, Key: c.Key, Cost: c.Cost, Limit: c.Sides[algorithms.Candidate].Limit, Expected: p.Expected(ctx, request),
				})
			}
		}
		if f.lines++; f.lines == warnAfter {
			f.warn()
		}
		return answer, checks
	}
}

// warn says what the first lines lack.
func (f *follower) warn() {
	for _, text := range f.requests.warnings() {
		f.log.Warn("shadowlimit: " + text)
	}
	if err := f.requests.refuse(); err != nil {
		f.log.Warn("shadowlimit: " + err.Error())
	}
	if err := f.observed.refuse(); err != nil {
		f.log.Warn("shadowlimit: " + err.Error())
	}
}

// summary says what has become of the lines.
func (f *follower) summary(std streams, l follow.Lines) {
	text := humanize.Counted(l.Read, "request") + " counted"
	for _, more := range []struct {
		n    int64
		what string
	}{
		{l.Unreadable, "could not be read"}, {l.TooOld, "of more than 110 minutes ago did not count"},
		{l.Ahead, "ahead of the clock did not count"},
	} {
		if more.n > 0 {
			text += ", " + humanize.Counted(more.n, "line") + " " + more.what
		}
	}
	say(std.err, "shadowlimit: %s\n", text)
}

// report prints the evidence that ends with this process.
func (f *follower) report(ctx context.Context, std streams, harness *shadow.Harness, fleet *fleetpkg.Fleet) error {
	// A heartbeat says that the last counts are written.
	if err := harness.Sync(ctx); err != nil {
		return err
	}
	list, err := inside.Assess(ctx, harness)
	if err != nil {
		return err
	}
	report, err := status.Of(ctx, f.set.Name, fleet.Ledger, list)
	if err != nil {
		return err
	}
	return report.WriteText(std.out)
}
