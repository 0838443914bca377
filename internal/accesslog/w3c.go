package accesslog

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
)

var errFields = errors.New("no #Fields line before it")

// w3cParser reads the W3C extended log format, of IIS and of CloudFront's standard logs. Its times are in UTC. A #Fields line,
// which may come again in the middle of a log, names the columns.
func w3cParser(_ *lineReader, cfg Config, _ layout, clock *clock) (parser, error) {
	var columns *header
	var day string
	read := newNamed(cfg, clock)
	return func(line []byte) (Event, error) {
		if line[0] == '#' {
			if fields, ok := cutDirective(line, "#Fields:"); ok {
				columns = newHeader(append(strings.Fields(fields), w3cTime))
			}
			if date, ok := cutDirective(line, "#Date:"); ok {
				day, _, _ = strings.Cut(strings.TrimSpace(date), " ")
			}
			return Event{}, errDirective
		}

		if columns == nil {
			return Event{}, errFields
		}
		values := w3cValues(line)
		if len(values) != len(columns.names)-1 {
			return Event{}, errColumns
		}
		return read.event(newW3CCells(columns, values, day))
	}, nil
}

// w3cTime is a column that is added to each line: its date and its time.
const w3cTime = "StartUTC"

func cutDirective(line []byte, name string) (string, bool) {
	if len(line) < len(name) || !strings.EqualFold(string(line[:len(name)]), name) {
		return "", false
	}
	return string(line[len(name):]), true
}

// w3cValues cuts a line: CloudFront's at tabs, IIS's at spaces.
func w3cValues(line []byte) []string {
	if bytes.IndexByte(line, '\t') >= 0 {
		return strings.Split(string(line), "\t")
	}
	return words(line)
}

// newW3CCells makes the cells of a line. Spaces are written as + or %20 in them, and absent values as a minus.
func newW3CCells(columns *header, values []string, day string) cells {
	l := cells{columns, values}
	clockTime, _ := l.text("time")
	if date, ok := l.text("date"); ok {
		day = date
	}

	for i, name := range columns.names[:len(values)] {
		switch {
		case values[i] == "-":
			values[i] = ""
		case strings.HasPrefix(name, "cs("):
			if text, err := url.PathUnescape(strings.ReplaceAll(values[i], "+", " ")); err == nil {
				values[i] = text
			}
		case name == "date" || name == "time":
			values[i] = "" // neither is a time on its own
		}
	}
	l.values = append(values, day+"T"+clockTime+"Z")
	return l
}
