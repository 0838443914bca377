package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

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
		Action:      withFleet(watchable, func(c *cli.Context, f *fleet) error { return watchStatus(c, f, std) }),
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

// watchStatus shows reports until it is interrupted. Only the first has to succeed: later Redis may fail
// over.
func watchStatus(c *cli.Context, f *fleet, std streams) error {
	ctx, policy, every := c.Context, c.Args().First(), c.Duration("every")

	// Only a terminal can be drawn over; a log file keeps one line for each moment.
	var view view = lines{std}
	if f.format == formatJSON {
		view = jsonLines{std}
	} else if d, ok := terminal(std.out); ok {
		view = &drawn{display: d, list: policy == ""}
	}
	defer view.end()

	for first := true; ; first = false {
		report, err := f.report(ctx, c.Args().Slice()...)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			view.failed(err)
		default:
			if err := view.show(&report); err != nil {
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

// view is how watch shows its reports. A look that failed is told, and the next one follows.
type view interface {
	show(*status.Report) error
	failed(error)
	end()
}

// lines is for files and pipes: one line for each policy.
type lines struct{ streams }

func (l lines) show(r *status.Report) error { return showLines(l.out, r) }
func (l lines) failed(err error)            { say(l.err, "%s\n", againText(err)) }
func (l lines) end()                        {}

// jsonLines is for programs: one line for each look.
type jsonLines struct{ streams }

func (l jsonLines) show(r *status.Report) error { return humanize.WriteJSON(l.out, "", r) }
func (l jsonLines) failed(err error)            { say(l.err, "%s\n", againText(err)) }
func (l jsonLines) end()                        {}

func againText(err error) string {
	return fmt.Sprintf("%s  shadowlimit: %v; trying again", time.Now().UTC().Format(time.TimeOnly), err)
}

// drawn is for a terminal: a screen of its own, which each report is drawn on over the one before, as much of it as fits.
type drawn struct {
	*display
	list    bool // a line for each policy, not all of one
	entered bool
	last    *status.Report
}

func (d *drawn) show(r *status.Report) error {
	d.last = r
	return d.draw("")
}

// failed keeps the last report below the error. On standard error the error would stand somewhere in it.
func (d *drawn) failed(err error) { d.draw(d.bad(againText(humanize.Discreet(err))) + "\n\n") }

func (d *drawn) bad(text string) string {
	return humanize.Colors(d.Colored()).Bad(humanize.Visible(text))
}

func (d *drawn) draw(above string) error {
	page := humanize.PageFor(d)
	page.WriteString(above)
	write := d.last.WriteText
	if d.list {
		write = d.last.WriteScreen
	}
	if err := write(page); err != nil {
		return err
	}

	columns, rows := d.size()
	text := screen(humanize.Wrap(page.String(), d.Columns()), columns, rows)
	if !d.entered {
		d.entered, text = true, enterScreen+text
	}
	_, err := io.WriteString(d, text)
	return err
}

// end gives the terminal back as it was.
func (d *drawn) end() {
	if d.entered {
		io.WriteString(d, leaveScreen)
	}
}

// showLines writes what matters of each policy in a line.
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
