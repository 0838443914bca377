package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

const watchDescription = `Shows status periodically (--every): on a terminal as a screen that it
redraws, otherwise as one line for each policy each time, with -o json as a
line of JSON. Once it has begun, it continues while Redis does not answer; it
ends with an interrupt.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit watch
  shadowlimit watch per-client --every 10s
  shadowlimit watch per-client -o json`

func watchCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "watch",
		Usage:       "show status live, until interrupted",
		ArgsUsage:   "[POLICY]",
		Description: watchDescription,
		Flags:       fleetFlags(&cli.DurationFlag{Name: "every", Value: 2 * time.Second, Usage: "`TIME` between two looks"}),
		Action:      withFleet(watchable, func(c *cli.Context, f *fleet) error { return f.watch(c, std) }),
	}
}

// leastEvery is the least time between two looks: each reads all of the evidence.
const leastEvery = 100 * time.Millisecond

// watchable refuses an invocation with several policies, or without a time between two looks.
func watchable(c *cli.Context) error {
	if every := c.Duration("every"); every < leastEvery {
		return usagef("such as 2s", "--every %s: want at least %s", every, leastEvery)
	}
	return takesPolicy(c)
}

// watch shows reports until it is interrupted. Only the first has to succeed: later Redis may fail
// over.
func (f *fleet) watch(c *cli.Context, std streams) error {
	ctx, policy, every := c.Context, c.Args().First(), c.Duration("every")

	// Only a terminal can be drawn over; a log file keeps one line for each moment.
	show := showLines
	if f.format == formatJSON {
		show = showJSON
	} else if file, ok := terminal(std.out); ok {
		show = screenOn(file, policy == "")
		defer fmt.Fprint(std.out, showCursor)
	}

	for first := true; ; first = false {
		report, err := f.report(ctx, c.Args().Slice()...)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(std.err, "%s  shadowlimit: %v; trying again\n", time.Now().UTC().Format(time.TimeOnly), err)
		default:
			if err := show(std.out, &report); err != nil {
				return err
			}
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func showJSON(out io.Writer, r *status.Report) error { return humanize.WriteJSON(out, "", r) }

// showLines is for files and pipes: one line for each policy.
func showLines(out io.Writer, r *status.Report) error {
	for i := range r.Policies {
		p := &r.Policies[i]
		text := fmt.Sprintf("%s  %s: %s, %s", time.Now().UTC().Format(time.TimeOnly), p.Name, p.Describe(), p.Gate.Brief())
		if p.Uncompared > 0 {
			text += "; not compared " + humanize.Percent(float64(p.Uncompared)/float64(p.Comparisons+p.Uncompared))
		}
		if d := p.Gate.Disturbed; d != nil && *d > 0 {
			text += fmt.Sprintf("; %s of the last day disturbed", humanize.Percent(*d))
		}
		for _, w := range p.Warnings() {
			text += "; " + w.Label + ": " + w.Text
		}

		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

// screenOn draws a report over the one before, as much of it as fits: a line for each policy, or all of one.
func screenOn(file *os.File, lines bool) func(io.Writer, *status.Report) error {
	return func(out io.Writer, r *status.Report) error {
		var b strings.Builder
		if lines {
			r.WriteScreen(&b) // a strings.Builder never fails
		} else {
			r.WriteText(&b)
		}

		width, height, _ := term.GetSize(int(file.Fd())) // 0 if the size is unknown
		_, err := io.WriteString(out, screen(b.String(), width, height))
		return err
	}
}
