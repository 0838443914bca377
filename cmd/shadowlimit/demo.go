package main

import (
	"net"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
)

const demoDescription = `Plays a whole migration, and needs nothing but this program. It starts a
Redis and a real HTTP server behind the middleware, and sends that server
four days of real requests, the bundled log and its first hours once more, in
less than a minute: the Redis has the only clock, and the demo winds it
forward. The candidate earns its promotion, goes wrong, and is rolled back.

With --redis it is one instance of a service on your Redis, with traffic, in
real time: a real clock cannot be wound forward.

Examples:
  shadowlimit demo
  shadowlimit demo --serve   # then use status, ... in another terminal
  shadowlimit demo --serve --redis redis://localhost:6379 \
      --listen 127.0.0.1:8080`

func demoCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "a whole migration on real traffic, in less than a minute",
		Description: demoDescription,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "serve", Usage: "keep it running, with traffic, until interrupted"},
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` of the service", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "redis", Usage: "with --serve: `URL` of your Redis, for a service in real time"},
		},
		Action: func(c *cli.Context) error { return demoAction(c, std) },
	}
}

func demoAction(c *cli.Context, std streams) error {
	if c.Args().Present() {
		return usagef("see: shadowlimit demo --help", "demo takes no arguments")
	}

	if _, _, err := net.SplitHostPort(c.String("listen")); err != nil {
		return usagef("such as 127.0.0.1:8080, or 127.0.0.1:0 for a free port", "--listen %s: want HOST:PORT", c.String("listen"))
	}
	cfg := demo.Config{Out: std.out, Listen: c.String("listen")}
	if c.Bool("serve") {
		cfg.Ending = demo.Serve
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
	if err := reach(c.Context, pingOf(client)); err != nil {
		client.Close()
		return err
	}
	return demo.ServeOn(c.Context, client, cfg)
}
