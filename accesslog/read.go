package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Event is one request of a log.
type Event struct {
	At   int64  // microseconds since the Unix epoch, floored
	Key  []byte // whose budget; valid until the next event
	Cost int64  // units, at least 0
}

// BadLine is a line that is no event.
type BadLine struct {
	Line int64 // from 1
	Text string
	Err  error
}

// Config says how to read a log. The zero value finds out.
type Config struct {
	Format Format
	Fields Fields
	// OnBadLine, if set, is told of every line that is skipped. Its text is
	// printable and cut to a hundred bytes or so.
	OnBadLine func(BadLine)
}

// Result counts what a log held. Blank lines are Lines and nothing else.
type Result struct {
	Format             Format
	Lines, Events, Bad int64
}

// maxLine is how much of a line is kept. What a common log needs of a longer one
// may well be there; other formats need it all.
const maxLine = 64 << 10

// parser turns a line into an event. It does not keep the line.
type parser func(line []byte) (Event, error)

// Read reads a log to its end and calls emit for each event in the order of the
// lines. Bad lines are counted and skipped. An error, which begins with name,
// means that the log could not be read to its end or that emit failed.
func Read(r io.Reader, name string, cfg Config, emit func(Event) error) (Result, error) {
	result := Result{Format: cfg.Format}
	in, err := open(r)
	if err != nil {
		return result, fmt.Errorf("%s: %w", name, err)
	}
	err = cfg.read(in, &result, emit)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the gzip stream ends early, after %d lines: the file is cut off", result.Lines)
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
	lines := lineReader{in: in}
	parse, err := c.parser(&lines, result.Format)
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
		if len(line) == 0 {
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
			if lines.cut {
				err = errTooLong
			}
			onBad(BadLine{lines.count, printable(line), err})
		}
	}
}

var errTooLong = errors.New("the line is longer than 64 KiB")

// open unpacks gzip, which it knows by its first bytes, and skips a byte order mark.
func open(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, maxLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		in = bufio.NewReaderSize(unpacked, maxLine)
	}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}
	return in, nil
}

// lineReader reads lines without their ends and keeps at most maxLine of each.
type lineReader struct {
	in    *bufio.Reader
	count int64
	cut   bool   // the last line was longer
	kept  []byte // of a line that was cut
}

func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.cut = err == bufio.ErrBufferFull
	if l.cut {
		l.kept = append(l.kept[:0], line...)
		line = l.kept
		for err == bufio.ErrBufferFull {
			_, err = l.in.ReadSlice('\n')
		}
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	l.count++
	return bytes.TrimRight(line, "\r\n"), nil
}

func (c Config) parser(lines *lineReader, f Format) (parser, error) {
	switch f {
	case JSONL:
		return whole(lines, jsonParser(c.Fields)), nil
	case CSV:
		parse, err := csvParser(lines, c.Fields)
		return whole(lines, parse), err
	}
	return commonParser(), nil
}

// whole refuses lines that were cut.
func whole(lines *lineReader, parse parser) parser {
	return func(line []byte) (Event, error) {
		if lines.cut {
			return Event{}, errTooLong
		}
		return parse(line)
	}
}

// printable writes a line as a terminal can take it.
func printable(line []byte) string {
	const most = 100
	cut := len(line) > most
	if cut {
		line = line[:most]
	}
	s := strings.Trim(strconv.QuoteToGraphic(strings.ToValidUTF8(string(line), "\ufffd")), `"`)
	s = strings.ReplaceAll(s, `\"`, `"`)
	if cut {
		s += "..."
	}
	return s
}

// parseCost reads a whole number that is not negative.
func parseCost(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("cost %s is not a whole number", printable([]byte(text)))
	case n < 0:
		return 0, fmt.Errorf("cost %d is negative", n)
	}
	return n, nil
}
