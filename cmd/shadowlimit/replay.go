package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

const replayDescription = `Runs both limiters over past traffic, in virtual time, and reports what the
candidate (--to) would have done differently from the authoritative (--from).
Nothing is deployed and nothing is changed.

ALGORITHMS,
each written as name:REQUESTS/WINDOW, buckets with :burst=N.
Windows take us ms s m h d.

Logs: access logs of Apache, nginx (also JSON), Caddy, Traefik, Envoy,
HAProxy, AWS ALB, ELB and CloudFront, IIS, Google Cloud, Zeek, the Elastic
Common Schema; other JSON lines; CSV with a header line. Behind syslog or a
container's prefix, plain or compressed by gzip, bzip2 or zstd, "-" for
standard input. The key is the client address, the field --key-field, or what
--key makes of the request. Lines need not be in the order of time.

With --config the requests of the log are charged by a policy file. They have
the fields that the log has, under the names that usual programs give them,
or method, path, route, host, query, ip, user, size and headers.NAME. The
route is the path unless the log has one.

The gate judges the candidate as it would at the end of the log: pass, wait
or fail, with its reason and all conditions of the first step. --require-pass
makes it the exit status. The report also says when the candidate would have
been in its first canary step, and when it would have been promoted.

--as puts a model in the place of a custom limiter of the policy file, which
is code of the service's program. One that is per process is modelled by the
sum of its instances.

--observed tells which requests today's limiter denied, by the response in
the log. Without --from, or with authoritative: { limiter: log } in the file,
the log's answers are the authoritative. With a model of that limiter the
report says how often the model decides the same, and warns if it differs too
often for the verdict to mean anything.

--sweep tries other numbers of the candidate, all in one reading of the log.
It prints the candidates that no other one beats: less newly denied and less
newly allowed.

--html writes the report as one page for a browser, too, to be sent to
others.

Examples, from the folder of the repository:
  shadowlimit replay --from fixed_window:20/1m \
      --to sliding_window_counter:20/1m \
      internal/sample/elastic-2015.access.log.gz
  shadowlimit replay --from token_bucket:60/1m:burst=20 \
      --to gcra:60/1m:burst=20 -o json \
      internal/sample/elastic-2015.access.log.gz
  shadowlimit replay --from gcra:60/1m \
      --to gcra:30/1m --key 'ipGroup(request.ip)' \
      internal/sample/elastic-2015.access.log.gz
  shadowlimit replay --from fixed_window:20/1m \
      --to gcra:20/1m --sweep burst=5..20:5 \
      internal/sample/elastic-2015.access.log.gz
  shadowlimit replay --config cmd/shadowlimit/internal/demo/demo.yaml \
      internal/sample/elastic-2015.access.log.gz
  zcat internal/sample/*.log.gz | shadowlimit replay \
      --from fixed_window:20/1m --to token_bucket:20/1m:burst=10 -`

func replayCommand(std streams) *cli.Command {
	flags := slices.Concat(under(aboutLimiters,
		&cli.StringFlag{Name: "config", Usage: "policy `FILE`, in place of --from and --to"},
		&cli.StringFlag{Name: "from", Usage: "the authoritative `LIMITER`, today's, or none"},
		&cli.StringFlag{Name: "to", Usage: "the candidate `LIMITER`, tomorrow's"},
		&cli.StringFlag{Name: "key", Usage: "the key as a CEL `EXPRESSION` of the request, as in policies"},
		&cli.StringFlag{Name: "policy", Usage: "replay only the policy of this `NAME` of the file"},
		&cli.StringSliceFlag{Name: "as", Usage: "model of a custom limiter of --config: `NAME=LIMITER`, such as " +
			"tenant-rate=token_bucket:10/1s:burst=20; repeatable"},
		&cli.StringSliceFlag{Name: "sweep", Usage: "judge many candidates: `NUMBER=VALUES` of limit, burst or window, " +
			"such as burst=10..100:10 or limit=15,20,25; repeatable, at most 500 in all"},
		&cli.StringFlag{Name: "observed", Usage: "CEL `EXPRESSION` of the response that says whether the log's limiter denied " +
			"the request, such as 'response.status == 429'"},
	), logFlags(), under(aboutReport,
		&cli.StringFlag{Name: "decisions", Usage: "write every decision to `FILE`, one JSON object a line"},
		&cli.StringFlag{Name: "html", Usage: "also write the report to `FILE`, as one page for a browser"},
		&cli.BoolFlag{Name: "require-pass", Usage: "exit with status 3 unless the gate's verdict is pass"},
		outputFlag(),
	), under(aboutGate,
		&cli.StringFlag{Name: "soak", Usage: "`TIME` that must have been seen before each step (default: 48h up to 10% of the keys, 72h up to 50%, " +
			"and 168h beyond)"},
		&cli.StringFlag{Name: "divergence", Usage: "threshold `PERCENT` of all comparisons (default: 2%)"},
		&cli.StringFlag{Name: "newly-denied", Usage: "threshold `PERCENT` of what the authoritative allows (default: 2%)"},
		&cli.StringFlag{Name: "newly-allowed", Usage: "threshold `PERCENT` of what the authoritative denies (default: none, and it is shown only)"},
		&cli.StringFlag{Name: "extra-load", Usage: "threshold `PERCENT` of newly allowed, of what the authoritative allows (default: 10%)"},
	), under(aboutStores,
		&cli.StringFlag{Name: "store", Value: "memory", Usage: "`PLACE` of the limiters' state: memory or redis"},
		&cli.StringFlag{Name: "redis", EnvVars: []string{"SHADOWLIMIT_REDIS"}, Usage: "with --store redis: `URL` of Redis"},
	))

	return &cli.Command{
		Name:        "replay",
		Usage:       "run both limiters over a log and say how they differ",
		ArgsUsage:   "LOG...",
		Description: strings.Replace(replayDescription, "ALGORITHMS", algorithmNames(), 1),
		Flags:       flags,
		Action:      func(c *cli.Context) error { return replayAction(c, std) },
	}
}

// collectAt is the growth of memory, in percent, after which a replay collects garbage.
const collectAt = 40

func replayAction(c *cli.Context, std streams) error {
	options, err := replayOptionsOf(c)
	if err != nil {
		return err
	}

	// The requests of a log are nearly all of the memory, and without pointers. So to collect early costs little, and a
	// log fits that otherwise would not.
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))

	r := &replayer{replayOptions: options, std: std, bar: newProgress(std.err)}
	defer r.bar.clear()
	report, err := r.run(c.Context)
	if err != nil {
		return err
	}

	// A log that was not read to its end is no reason to lose the page.
	if err := errors.Join(r.print(report, report.WriteText), writeReport(r.htmlFile, report.WriteHTML)); err != nil {
		return err
	}
	if r.requirePass {
		return allPass(report)
	}
	return nil
}

// allPass returns an error unless the gate says pass of every policy.
func allPass(report *replay.Report) error {
	for i := range report.Policies {
		p := &report.Policies[i]
		if p.Gate.Verdict != gate.Pass {
			return statusf(exitNotMet, "the gate says %s of %s: %s", p.Gate.Verdict, p.Name, p.Gate.Reason)
		}
	}
	return nil
}

// createFile creates the file of that name; "" is none.
func createFile(name string) (io.Writer, func() error, error) {
	if name == "" {
		return nil, func() error { return nil }, nil
	}

	// Write-only: if this process could also read a pipe, writing would not fail when its reader ends.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, reason(err))
	}
	return f, f.Close, nil
}
