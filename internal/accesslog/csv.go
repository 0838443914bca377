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

	c := columns{cost: -1}

	names := fields.times()
	for i := len(names) - 1; i >= 0; i-- {
		if at := slices.Index(header, names[i]); at >= 0 {
			c.time, c.unit, c.found = at, scaleOf(names[i]), true
		}
	}

	if !c.found {
		return nil, missing(names[0], "--time-field", header)
	}
	if c.key = slices.Index(header, fields.key()); c.key < 0 && !requests {
		return nil, missing(fields.key(), "--key-field", header)
	}
	if c.cost = slices.Index(header, fields.cost()); c.cost < 0 && fields.Cost != "" {
		return nil, missing(fields.Cost, "--cost-field", header)
	}

	c.last = max(c.time, c.key, c.cost)
	if !requests {
		return c.parse, nil
	}

	return func(line []byte) (Event, error) {
		event, err := c.parse(line)
		if err == nil {
			values, _ := record(line) // it was read a moment ago
			event.source = csvLine{header, values}
		}
		return event, err
	}, nil
}

// csvLine are the cells of a line under their names.
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
		if _, twice := found[inner]; ok && !twice && i < len(l.values) && l.values[i] != "" {
			found[inner] = l.values[i]
		}
	}
	return found
}

// maxHeader is how much of a header an error shows: to see all columns matters
// more than to stay on one line.
const maxHeader = 2000

func missing(field, flag string, header []string) error {
	return fmt.Errorf("the CSV header has no field %q; it has %s: name one with %s", field, printable([]byte(strings.Join(header, ", ")), maxHeader), flag)
}

// csvHeader reads the first line that is not blank; io.EOF means there is none.
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

// columns are where a record has what an event needs.
type columns struct {
	time, key, cost, last int // cost -1: there is none
	unit                  scale
	found                 bool
}

func (c columns) parse(line []byte) (Event, error) {
	var cells [3][]byte // time, key, cost
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

// Why a line is no record.
var (
	errColumns   = errors.New("fewer columns than the header")
	errQuotes    = errors.New("the quotes do not close")
	errBareQuote = errors.New("a quote in a cell that is not quoted")
)

// split cuts a line without quotes and reports whether every column was there.
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
