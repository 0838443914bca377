package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// display is an output and what is known of who reads it. Texts for people are as wide as it is, and coloured if it is.
type display struct {
	io.Writer
	size func() (columns, rows int) // of a terminal that can be drawn on, else nil; 0 where it does not say
	when string                     // it shows colours: as --color has it
}

func newDisplay(out io.Writer) *display {
	d := &display{Writer: out}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		d.size = func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(file.Fd()))
			return columns, rows
		}
	}
	return d
}

// terminal returns the display behind a writer if it is a terminal that can be drawn on.
func terminal(out io.Writer) (*display, bool) {
	d, ok := out.(*display)
	return d, ok && d.size != nil
}

const (
	// usualColumns and usualRows are those of a terminal as it is opened.
	usualColumns, usualRows = humanize.UsualColumns, 24
	// leastColumns are those that a table needs.
	leastColumns = 40
)

// Columns is how wide a text for this place may be. A serial console or a container may report no size, and gets the usual one.
func (d *display) Columns() int {
	if d.size != nil {
		if columns, _ := d.size(); columns > 0 {
			return max(leastColumns, columns)
		}
	}
	return humanize.PageFor(d.Writer).Columns()
}

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// Colored reports whether words get their colour. What the command line says comes before the environment.
func (d *display) Colored() bool {
	force := os.Getenv("CLICOLOR_FORCE")
	switch {
	case d.when == colorAlways || d.when == colorNever:
		return d.when == colorAlways
	case os.Getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	}
	return d.size != nil && os.Getenv("CLICOLOR") != "0"
}

// say tells people something beside the report, on standard error. Where that is no terminal it may be a log, which is searched
// by its lines. What Redis answers, or a file says, may be another program's words: nothing of it steers a terminal.
func say(out io.Writer, form string, args ...any) error {
	lines := strings.Split(fmt.Sprintf(form, args...), "\n")
	for i, line := range lines {
		lines[i] = humanize.Visible(line)
	}
	text := strings.Join(lines, "\n")
	if d, ok := terminal(out); ok {
		text = humanize.Wrap(text, d.Columns())
	}
	_, err := io.WriteString(out, text)
	return err
}
