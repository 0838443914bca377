package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/accesslog"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/replay"
	"github.com/shadowlimit/shadowlimit/sample"
)

const demoFrom, demoTo = "fixed_window:20/1m", "token_bucket:20/1m:burst=10"

func demoCommand(io streams) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "replay the bundled access log: 20 per minute and client, fixed window to token bucket",
		Description: `Needs nothing but this program. It replays ten thousand real requests, the
bundled log of a web site, through both limiters.

Example:
  shadowlimit demo`,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("see: shadowlimit demo --help", "demo takes no arguments")
			}
			return demo(c.Context, io)
		},
	}
}

func demo(ctx context.Context, io streams) error {
	fmt.Fprintf(io.out, "A web site lets each client make 20 requests a minute, counted in fixed windows.\nWhat would a token bucket do to four days of its traffic, 20 a minute and 10 at once?\n\n")
	from, err := parseSide("from", demoFrom)
	if err != nil {
		return err
	}
	to, err := parseSide("to", demoTo)
	if err != nil {
		return err
	}
	events := &replay.Events{}
	result, err := accesslog.Read(bytes.NewReader(sample.Log()), "bundled log", accesslog.Config{}, func(e accesslog.Event) error {
		events.Add(e.At, e.Key, e.Cost)
		return nil
	})
	if err != nil {
		return err
	}
	report, err := replay.Run(ctx, events, replay.Config{
		Policy: "demo", Sides: [2]algorithms.Side{from, to},
		Pair: algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1}),
	})
	if err != nil {
		return err
	}
	report.SkippedLines = result.Bad
	if err := report.WriteText(io.out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.out, "\nThe same for your own log:\n  shadowlimit replay --from %s --to %s access.log.gz\n", demoFrom, demoTo)
	return err
}
