package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// csvParser reads the header line and returns the parser of the others.
func csvParser(lines *lineReader, fields Fields, requests bool) (parser, error) {
	header, err := csvHeader(lines)
	if err != nil {
		return nil, err
	}

	c, err := findColumns(header, fields, requests)
	if err != nil {
		return nil, err
	}
	if !requests {
		return c.parse, nil
	}

	return func(line []byte) (Event, error) {
		event, err := c.parse(line)
		if err == nil {
			values, _ := record(line) // cannot fail: parse has read the same line
			event.source = csvLine{header, values}
		}
		return event, err
	}, nil
}

// findColumns looks up the fields in the header. A policy makes its own key, so with
// requests the key may be missing; a cost may be missing unless it was named.
func findColumns(header []string, fields Fields, requests bool) (columns, error) {
	var c columns

	times := fields.times()
	named := slices.IndexFunc(times, func(name string) bool { return slices.Contains(header, name) })
	if named < 0 {
		return c, missing(times[0], "--time-field", header)
	}
	c.time = slices.Index(header, times[named])
	c.unit = scaleOf(times[named])

	if c.key = slices.Index(header, fields.key()); c.key < 0 && !requests {
		return c, missing(fields.key(), "--key-field", header)
	}
	if c.cost = slices.Index(header, fields.cost()); c.cost < 0 && fields.Cost != "" {
		return c, missing(fields.Cost, "--cost-field", header)
	}

	c.last = max(c.time, c.key, c.cost)
	return c, nil
}

// csvLine has the cells of a line under the names of the header.
type csvLine struct{ header, values []string }

func (l csvLine) text(name string) (string, bool) {
	i := slices.Index(l.header, name)
	if i < 0 || i >= len(l.values) || l.values[i] == "" {
		return "", false
	}
	return l.values[i], true
}

func (l csvLine) under(name string) map[string]string {
	found := map[string]string{}
	for i, field := range l.header {
		inner, ok := strings.CutPrefix(field, name+".")
		if !ok || i >= len(l.values) || l.values[i] == "" {
			continue
		}

		// text returns the first column of a name, so under must, too.
		if _, twice := found[inner]; !twice {
			found[inner] = l.values[i]
		}
	}
	return found
}

// maxHeader bounds the bytes of a header in an error. It is larger than maxText,
// because the names of all columns help more than a short line.
const maxHeader = 2000

func missing(field, flag string, header []string) error {
	columns := printable([]byte(strings.Join(header, ", ")), maxHeader)
	return fmt.Errorf("the CSV header has no field %q; it has %s: name one with %s", field, columns, flag)
}

// csvHeader reads the first line that is not blank. io.EOF means that there is none.
func csvHeader(lines *lineReader) ([]string, error) {
	line, err := lines.next()
	for err == nil && isBlank(line) {
		line, err = lines.next()
	}

	if err != nil {
		return nil, err
	}
	if lines.cut {
		return nil, fmt.Errorf("the CSV header: %w", lines.tooLong())
	}

	header, err := record(line)
	if err != nil {
		return nil, fmt.Errorf("the CSV header: %w", err)
	}

	return header, nil
}

// columns are the places of an event's fields in a record. -1 means no such column,
// which only key and cost may be.
type columns struct {
	time, key, cost int
	last            int // the largest of them
	unit            scale
}

func (c columns) parse(line []byte) (Event, error) {
	var cells [3][]byte // time, key, cost

	// Lines without quotes, which are most, need no CSV reader and no allocation.
	if bytes.IndexByte(line, '"') >= 0 {
		values, err := record(line)
		if err != nil {
			return Event{}, err
		}

		for i, v := range values {
			c.put(&cells, i, []byte(v))
		}

		if len(values) <= c.last {
			return Event{}, errColumns
		}
	} else if !c.split(&cells, line) {
		return Event{}, errColumns
	}

	at, err := parseTime(string(cells[0]), c.unit)
	if err != nil {
		return Event{}, err
	}

	e := Event{At: at, Key: cells[1], Cost: 1}
	if len(cells[2]) > 0 {
		e.Cost, err = parseCost(string(cells[2]))
	}

	return e, err
}

// Reasons why a line is not a record.
var (
	errColumns   = errors.New("fewer columns than the header")
	errQuotes    = errors.New("the quotes do not close")
	errBareQuote = errors.New("a quote in a cell that is not quoted")
)

// split cuts a line without quotes and reports whether it has every column.
func (c columns) split(cells *[3][]byte, line []byte) bool {
	for i := 0; ; i++ {
		end := bytes.IndexByte(line, ',')
		if end < 0 {
			c.put(cells, i, line)
			return i >= c.last
		}

		c.put(cells, i, line[:end])
		if i == c.last {
			return true
		}

		line = line[end+1:]
	}
}

func (c columns) put(cells *[3][]byte, i int, cell []byte) {
	if i == c.time {
		cells[0] = cell
	}
	if i == c.key {
		cells[1] = cell
	}
	if i == c.cost {
		cells[2] = cell
	}
}

// record reads one line of CSV.
func record(line []byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.FieldsPerRecord = -1

	values, err := r.Read()
	switch {
	case errors.Is(err, csv.ErrBareQuote):
		return nil, errBareQuote
	case err != nil:
		return nil, errQuotes
	}

	return values, nil
}
