package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Event is one request of a log.
type Event struct {
	At   int64  // microseconds since the Unix epoch, floored
	Key  []byte // the key of the budget; valid until the next event
	Cost int64  // units, at least 0

	source lookup // the fields of the line; nil without Config.Requests
}

// lookup finds the fields of one line by their names.
type lookup interface {
	text(name string) (string, bool)
	under(name string) map[string]string
}

// Field returns a field of the request. A common or combined log has method, path,
// query, user, ip, headers.referer and headers.user-agent; the other formats have the
// fields of the line. Config.Requests must be set.
func (e Event) Field(name string) (string, bool) {
	if e.source == nil {
		return "", false
	}
	return e.source.text(name)
}

// Under returns all fields whose name begins with name and a dot, by the rest of
// their names: Under("headers") has every header of the line. Config.Requests must be
// set.
func (e Event) Under(name string) map[string]string {
	if e.source == nil {
		return nil
	}
	return e.source.under(name)
}

// BadLine is a line that is no event.
type BadLine struct {
	Line int64  // from 1
	Text string // printable, at most 120 bytes
	Err  error
}

// Config says how to read a log. The zero value detects the format.
type Config struct {
	Format Format
	Fields Fields
	// Requests keeps the fields for Event.Field. A line of JSON or CSV then needs no key.
	Requests bool
	// OnBadLine, if set, is called for every line that is skipped because it is no event.
	OnBadLine func(BadLine)
}

// Result counts the lines of a log. A blank line counts in Lines only.
type Result struct {
	Format             Format
	Lines, Events, Bad int64
}

// Bytes of a line that are kept. The fields of a common log are at the start of a
// line, so a cut line is still read; the other formats need the whole line.
const (
	maxLine  = 64 << 10
	maxWhole = 1 << 20
)

// parser turns a line into an event. It does not keep the line.
type parser func(line []byte) (Event, error)

// Read reads a log to its end and calls emit for each event in the order of the
// lines. Bad lines are counted and skipped. An error means that the log could not be
// read to its end or that emit failed; it begins with name.
func Read(r io.Reader, name string, cfg Config, emit func(Event) error) (Result, error) {
	result := Result{Format: cfg.Format}

	in, err := open(r)
	if err == nil {
		err = cfg.read(in, &result, emit)
	}
	if broken := (gzipError{}); errors.As(err, &broken) {
		err = broken.after(result.Lines)
	}

	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}

	return result, err
}

func (c Config) read(in *bufio.Reader, result *Result, emit func(Event) error) (err error) {
	if result.Format == Auto {
		if result.Format, err = detect(in, c.Fields); err != nil {
			return err
		}
	}

	lines := lineReader{in: in, most: maxLine}
	parse, err := c.parser(&lines, result.Format)
	result.Lines = lines.count // a CSV header has been read

	if err == io.EOF {
		return nil // no header, so no records
	}
	if err != nil {
		return err
	}

	return readLines(&lines, parse, c.OnBadLine, result, emit)
}

func readLines(lines *lineReader, parse parser, onBad func(BadLine), result *Result, emit func(Event) error) error {
	for {
		line, err := lines.next()
		result.Lines = lines.count
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if isBlank(line) {
			continue
		}

		event, err := parse(line)
		if err == nil {
			result.Events++
			if err := emit(event); err != nil {
				return err
			}
			continue
		}

		result.Bad++
		if onBad != nil {
			// The parser blames the place of the cut; the cut itself is the cause.
			if lines.cut {
				err = lines.tooLong()
			}
			onBad(BadLine{lines.count, printable(line, maxText), err})
		}
	}
}

// open unpacks gzip, recognized by its first bytes, and skips a byte order mark.
func open(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(&source{Reader: r}, maxLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, asGzipError(err)
		}
		in = bufio.NewReaderSize(&source{Reader: unpacker{unpacked}}, maxLine)
	}

	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}

	return in, nil
}

func (c Config) parser(lines *lineReader, f Format) (parser, error) {
	switch f {
	case JSONL:
		lines.most = maxWhole
		return whole(lines, jsonParser(c.Fields, c.Requests)), nil
	case CSV:
		lines.most = maxWhole
		parse, err := csvParser(lines, c.Fields, c.Requests)
		return whole(lines, parse), err
	}

	return commonParser(c.Requests), nil
}

// whole rejects lines that were cut.
func whole(lines *lineReader, parse parser) parser {
	return func(line []byte) (Event, error) {
		if lines.cut {
			return Event{}, lines.tooLong()
		}
		return parse(line)
	}
}

// parseCost reads a whole number that is not negative.
func parseCost(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case n < 0:
		return 0, fmt.Errorf("cost %s is negative", printable([]byte(text), maxText))
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("cost %s is larger than 9223372036854775807", printable([]byte(text), maxText))
	case err != nil:
		return 0, fmt.Errorf("cost %s is not a whole number", printable([]byte(text), maxText))
	}

	return n, nil
}
