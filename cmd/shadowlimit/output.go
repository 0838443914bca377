package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

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

// print writes a report in a format: as JSON, or as text by the given writer of it.
func (f format) print(out io.Writer, report any, text func(io.Writer) error) error {
	if f == formatJSON {
		return writeJSON(out, report)
	}
	return text(out)
}

func writeJSON(out io.Writer, report any) error {
	return humanize.WriteJSON(out, "  ", report)
}

// width is that of a terminal, in columns.
const width = 80

// clip cuts a line off where a terminal ends.
func clip(line string) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

// folded breaks the lines of an error, before the first of which stands the name of the program.
func folded(text string) string {
	const name = "shadowlimit: "
	return strings.TrimPrefix(humanize.Wrap(name+text, width), name)
}
