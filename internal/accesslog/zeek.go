package accesslog

import (
	"errors"
	"strconv"
	"strings"
)

var errZeekFields = errors.New("no #fields line before it")

// zeekTable is what the directives of a Zeek log have said. Source: Zeek's manual, "Zeek Log Formats and Inspection".
type zeekTable struct {
	separator, unset, empty string
	columns                 *header
}

// zeekParser reads Zeek's tables.
func zeekParser(_ *lineReader, cfg Config, _ layout, clock *clock) (parser, error) {
	t := zeekTable{separator: "\t", unset: "-", empty: "(empty)"}
	read := newNamed(cfg, clock)
	return func(line []byte) (Event, error) {
		if line[0] == '#' {
			t.direct(string(line))
			return Event{}, errDirective
		}
		if t.columns == nil {
			return Event{}, errZeekFields
		}

		values := strings.Split(string(line), t.separator)
		if len(values) != len(t.columns.names) {
			return Event{}, errColumns
		}
		for i, v := range values {
			if v == t.unset || v == t.empty {
				values[i] = ""
			}
		}
		return read.event(cells{t.columns, values})
	}, nil
}

// direct obeys a directive.
func (t *zeekTable) direct(line string) {
	if text, ok := strings.CutPrefix(line, "#separator "); ok {
		if s, err := strconv.Unquote(`"` + text + `"`); err == nil && s != "" {
			t.separator = s
		}
		return
	}

	name, value, _ := strings.Cut(line, t.separator)
	switch name {
	case "#fields":
		t.columns = newHeader(strings.Split(value, t.separator))
	case "#unset_field":
		t.unset = value
	case "#empty_field":
		t.empty = value
	}
}
