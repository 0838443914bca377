package main

import (
	"io"
	"net"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

const demoDescription = `Plays a whole migration, and needs nothing but this program. It starts a Redis and a
real HTTP server behind the middleware, and sends that server three and a half days of real
requests, the bundled log, in less than a minute: the Redis has the only clock, and
the demo winds it forward. The candidate earns its promotion, goes wrong, and is
rolled back.

With --config it is a rehearsal: a policy of your own, and a log of your own, go the same
way, such as: shadowlimit demo --config policies.yaml access.log. At most 30,000 requests
are sent, of a share of the keys where the log has more. The candidate is promoted as
soon as the gate says pass, and then denies every request. A log on which the gate would
not pass in time is refused (exit status 3), with the --soak that would do. The flags of
logs and of the gate are those of replay.

With --redis it is one instance of a service on your Redis, with traffic, in real
time: a real clock cannot be wound forward.

Examples:
  shadowlimit demo
  shadowlimit demo --serve      # then use status, promote, ... in another terminal
  shadowlimit demo --serve --redis redis://localhost:6379 --listen 127.0.0.1:8080`

func demoCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "a whole migration on real traffic, or on your own log, in about a minute",
		ArgsUsage:   "[LOG...]",
		Description: demoDescription,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "serve", Usage: "keep it running, with traffic, until interrupted"},
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` of the service", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "redis", Usage: "with --serve: `URL` of your Redis, for a service in real time"},
			&cli.StringFlag{Name: "config", Usage: "rehearse the migration of this policy `FILE` on a log"},
			&cli.StringFlag{Name: "policy", Usage: "rehearse the policy of this `NAME` of the file"},
		}, logFlags(), gateFlags()),
		Action: func(c *cli.Context) error { return demoAction(c, std) },
	}
}

const demoHint = "see: shadowlimit demo --help"

// demoConflicts are the combinations that demo refuses.
var demoConflicts = []conflict{
	{
		func(c *cli.Context) bool { return !hasConfig(c) && c.Args().Present() },
		"demo takes no log without --config: it has one of its own", "add --config policies.yaml to rehearse a migration of your own",
	},
	{
		func(c *cli.Context) bool {
			return !hasConfig(c) && (anySet(c, logFlagNames...) || anySet(c, gateFlagNames...) || c.IsSet("policy"))
		},
		"without --config the demo has a policy and a log of its own: leave out their flags", demoHint,
	},
	{
		func(c *cli.Context) bool { return hasConfig(c) && !c.Args().Present() },
		"a rehearsal needs a log", "name log files, or - for standard input",
	},
	{
		func(c *cli.Context) bool { return hasConfig(c) && c.String("redis") != "" },
		"a rehearsal winds a clock forward, and the clock of --redis is real: leave out --redis", demoHint,
	},
	conflictOfFields,
}

// gateFlagNames are the flags that overrule what a policy asks of the evidence.
var gateFlagNames = []string{"soak", "block", "divergence", "newly-denied", "newly-allowed", "extra-load"}

func demoAction(c *cli.Context, std streams) error {
	if err := refuse(c, demoConflicts); err != nil {
		return err
	}

	if _, _, err := net.SplitHostPort(c.String("listen")); err != nil {
		return usagef("such as 127.0.0.1:8080, or 127.0.0.1:0 for a free port", "--listen %s: want HOST:PORT", c.String("listen"))
	}
	cfg := demo.Config{Out: std.out, Listen: c.String("listen"), WriteHistory: writeHistory}
	if c.Bool("serve") {
		cfg.Ending = demo.Serve
	}
	if hasConfig(c) {
		return rehearse(c, std, cfg)
	}
	if c.String("redis") == "" {
		return demo.Run(c.Context, cfg)
	}

	if cfg.Ending != demo.Serve {
		return usagef("add --serve", "without --serve the demo winds a clock forward, and the clock of --redis is real")
	}
	client, err := openRedis(c.String("redis"), demo.Budget)
	if err != nil {
		return err
	}

	// A service goes on without Redis, but then the commands of the other terminal have nothing to read.
	if err := reach(c.Context, client); err != nil {
		client.Close()
		return err
	}
	return demo.ServeOn(c.Context, client, cfg)
}

// writeHistory writes an audit trail as text.
func writeHistory(out io.Writer, states []promotion.State) error {
	return writeTransitions(out, transitions(states))
}
