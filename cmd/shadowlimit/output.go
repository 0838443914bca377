package main

import (
	"encoding/json"
	"io"

	"github.com/urfave/cli/v2"
)

// format is the form of a report, as -o names it.
type format string

const (
	formatText format = "text"
	formatJSON format = "json"
	formatCSV  format = "csv"
)

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: string(formatText), Usage: "text or json"}
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
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
