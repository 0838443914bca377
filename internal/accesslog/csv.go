package accesslog

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// csvParser reads the header line and returns the parser of the others.
func csvParser(lines *lineReader, cfg Config, l layout, clock *clock) (parser, error) {
	comma := l.comma
	names, err := csvHeader(lines, comma)
	if err != nil {
		return nil, err
	}

	c, err := findColumns(names, cfg)
	if err != nil {
		return nil, err
	}
	c.comma, c.clock = comma, clock
	head, read := newHeader(names), newNamed(cfg, clock)

	if !c.whole {
		return c.parse, nil
	}

	return func(line []byte) (Event, error) {
		values, err := record(line, comma)
		if err == nil && len(values) <= c.last {
			err = errColumns
		}
		if err != nil {
			return Event{}, err
		}
		return read.event(cells{head, values})
	}, nil
}

// findColumns looks up the fields in the header. A policy makes its own key, so with
// requests the key may be missing; a cost may be missing unless it was named.
func findColumns(names []string, cfg Config) (columns, error) {
	var c columns
	fields := cfg.Fields

	times := fields.times()
	named := slices.IndexFunc(times, func(name string) bool { return slices.Contains(names, name) })
	if named < 0 {
		return c, missing(cmp.Or(fields.Time, "time"), "--time-field", names)
	}
	c.time = slices.Index(names, times[named])
	c.unit = scaleOf(times[named])

	// Without a key the client's address is one, but it may take several columns to find.
	c.key = slices.Index(names, fields.key())
	byClient := cfg.Map["ip"] != "" || fields.Key == "" && c.key < 0 && hasAddress(names)
	c.whole = cfg.Requests || cfg.Response || byClient
	if c.key < 0 && !cfg.Requests && !byClient {
		return c, missing(fields.key(), "--key-field", names)
	}
	if c.cost = slices.Index(names, fields.cost()); c.cost < 0 && fields.Cost != "" {
		return c, missing(fields.Cost, "--cost-field", names)
	}
	for _, name := range slices.Sorted(maps.Values(cfg.Map)) {
		if !slices.Contains(names, name) {
			return c, missing(name, "--map", names)
		}
	}

	c.last = max(c.time, c.key, c.cost)
	return c, nil
}

// hasAddress reports whether a column is known to have the client's address.
func hasAddress(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		p, ok := knownPlaces[name]
		return ok && p.field == ofIP
	})
}

// maxHeader bounds the bytes of a header in an error. It is larger than maxText,
// because the names of all columns help more than a short line.
const maxHeader = 2000

func missing(field, flag string, header []string) error {
	columns := printable([]byte(strings.Join(header, ", ")), maxHeader)
	return fmt.Errorf("the CSV header has no field %q; it has %s: name one with %s", field, columns, flag)
}

// csvHeader reads the first line that is not blank. io.EOF means that there is none.
func csvHeader(lines *lineReader, comma byte) ([]string, error) {
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

	names, err := record(line, comma)
	if err != nil {
		return nil, fmt.Errorf("the CSV header: %w", err)
	}
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}

	return names, nil
}

// columns are the places of an event's fields in a record. -1 means no such column,
// which only key and cost may be.
type columns struct {
	time, key, cost int
	last            int // the largest of them
	unit            scale
	comma           byte
	whole           bool // the event needs other columns, too
	clock           *clock
}

func (c columns) parse(line []byte) (Event, error) {
	var cells [3][]byte // time, key, cost

	// Lines without quotes, which are most, need no CSV reader and no allocation.
	if bytes.IndexByte(line, '"') >= 0 {
		values, err := record(line, c.comma)
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

	at, err := c.clock.read(string(cells[0]), c.unit)
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
		end := bytes.IndexByte(line, c.comma)
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

func record(line []byte, comma byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = rune(comma)
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
