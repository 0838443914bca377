package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// format is the form of a report, as -o names it.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
)

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: string(formatText), Usage: "`FORM` of the output: text or json"}
}

// checkPlace says before long work that a file has no place; "" is none.
func checkPlace(what, file string) error {
	if file == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return usagef("name a file in a folder that exists", "%s %s: %s: %v", what, file, filepath.Dir(file), reason(err))
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return usagef("name a file in it", "%s %s: is a folder", what, file)
	}
	return nil
}

// formatOf reads the flag -o of a command that writes text or JSON.
func formatOf(c *cli.Context) (format, error) {
	switch f := format(c.String("output")); f {
	case formatText, formatJSON:
		return f, nil
	default:
		return "", usagef(seeHelp(c), "-o %s: want text or json", f)
	}
}

// print writes a report in a format: as JSON, or for people by the given writer of text, as wide as the place has room.
func (f format) print(out io.Writer, report any, text func(io.Writer) error) error {
	if f == formatJSON {
		return writeJSON(out, report)
	}
	page := humanize.PageFor(out)
	return errors.Join(text(page), page.Show(out))
}

// printFile writes a report as JSON, or as a file of another kind, whose lines stay as they are.
func (f format) printFile(out io.Writer, report any, file func(io.Writer) error) error {
	if f == formatJSON {
		return writeJSON(out, report)
	}
	return file(out)
}

func writeJSON(out io.Writer, report any) error {
	return humanize.WriteJSON(out, "  ", report)
}

// clip cuts a line off where the place to read it ends.
func clip(line string, columns int) string {
	if runes := []rune(line); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return line
}
