package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

const watchDescription = `Shows status again and again: on a terminal as a screen that is drawn over, elsewhere
as a line for each policy and moment, with -o json as a line of JSON. It goes on while
Redis does not answer, and ends with an interrupt.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit watch
  shadowlimit watch per-client --every 10s
  shadowlimit watch per-client -o json`

func watchCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "show status live, until interrupted",
		ArgsUsage: "[POLICY]", Description: watchDescription,
		Flags: fleetFlags(&cli.DurationFlag{Name: "every", Value: 2 * time.Second, Usage: "how often to look"}),
		Action: withFleet(func(c *cli.Context, f *fleet) error {
			switch {
			case c.NArg() > 1:
				return usagef("see: shadowlimit watch --help", "watch takes one policy, got %d", c.NArg())
			case c.Duration("every") <= 0:
				return usagef("such as 2s", "--every %s: want a time above 0", c.Duration("every"))
			}
			return f.watch(c.Context, c.Args().First(), c.Duration("every"), io)
		}),
	}
}

// watch shows reports until ctx is over. Only the first has to succeed.
func (f *fleet) watch(ctx context.Context, policy string, every time.Duration, io streams) error {
	show := lines
	if f.json {
		show = jsonLine
	} else if file, ok := io.out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		show = screenOn(file)
		defer fmt.Fprint(io.out, showCursor)
	}
	for first := true; ; first = false {
		report, err := f.report(ctx, policy)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(io.err, "%s  shadowlimit: %v; trying again\n", time.Now().UTC().Format(time.TimeOnly), err)
		default:
			if err := show(io.out, &report); err != nil {
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

func jsonLine(out io.Writer, r *status.Report) error { return json.NewEncoder(out).Encode(r) }

// lines are for files and pipes: one for each policy.
func lines(out io.Writer, r *status.Report) error {
	for i := range r.Policies {
		p := &r.Policies[i]
		text := fmt.Sprintf("%s  %s: %s, %s, %.4g h clean, %s", time.Now().UTC().Format(time.TimeOnly), p.Name, p.Describe(), p.Gate.Verdict, p.Gate.CleanHours, humanize.Counted(int64(p.Gate.Strikes), "strike"))
		for _, ratio := range divergence.AllRatios {
			if v := p.Gate.Ratio(ratio); v.Ratio != nil {
				text += fmt.Sprintf(", %s %s of %s", ratio, humanize.Percent(*v.Ratio), humanize.Percent(v.Threshold))
			}
		}
		if p.Alarm != "" {
			text += ", ALARM: " + p.Alarm
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

// Controls of a terminal.
const (
	toTop      = "\x1b[?25l\x1b[H" // and hide the cursor
	clearLine  = "\x1b[K"
	clearRest  = "\x1b[J"
	showCursor = "\x1b[?25h"
)

// screenOn draws a report over the one before, as much of it as fits.
func screenOn(file *os.File) func(io.Writer, *status.Report) error {
	return func(out io.Writer, r *status.Report) error {
		var b strings.Builder
		r.WriteText(&b) // a strings.Builder takes everything
		for i := range r.Policies {
			r.Policies[i].WriteCharts(&b)
		}
		width, height, _ := term.GetSize(int(file.Fd())) // 0 if that cannot be told
		_, err := io.WriteString(out, screen(b.String(), width, height))
		return err
	}
}

// screen fits a text into a terminal. Its last line says if more would follow. A serial
// console or a container may tell no size, and gets the usual one.
func screen(text string, width, height int) string {
	if width < 1 || height < 2 {
		width, height = 80, 24
	}
	var all []string
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		all = append(all, wrapped([]rune(strings.TrimRight(line, " \n")), width)...)
	}
	if len(all) > height-1 {
		all = append(all[:height-2], fmt.Sprintf("... %d more lines", len(all)-height+2))
	}
	var b strings.Builder
	b.WriteString(toTop)
	for _, line := range all {
		b.WriteString(line + clearLine + "\r\n")
	}
	return b.String() + clearRest
}

// wrapped breaks a line, at spaces if it has any in the last half.
func wrapped(line []rune, width int) (lines []string) {
	for len(line) > width && width > 0 {
		end := width
		for end > width/2 && line[end] != ' ' {
			end--
		}
		if line[end] != ' ' {
			end = width
		}
		lines = append(lines, string(line[:end]))
		line = []rune(strings.TrimLeft(string(line[end:]), " "))
	}
	return append(lines, string(line))
}
