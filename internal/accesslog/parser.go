package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Parser reads a log line by line, from any line on: that of a log that grows, where Read would wait for its end. It is not for
// concurrent use.
type Parser struct {
	// Header is how many bytes of the log are before its first record, and no lines to parse.
	Header int64
	Format Format

	cfg   Config
	lines lineReader
	parse parser
}

// Grows returns an error for a log whose first bytes say that it is compressed, or an archive: no line is appended to such a file.
func Grows(head []byte) error {
	for _, p := range packings {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return errGrows
		}
	}
	return refusePacked(head)
}

var errGrows = errors.New("a compressed log does not grow: read it by shadowlimit replay")

// NewParser returns the parser of a log by its first lines, of which 64 KiB are enough.
func NewParser(head []byte, cfg Config) (*Parser, error) {
	if err := Grows(head); err != nil {
		return nil, err
	}

	head = head[:min(len(head), maxLine)]
	from := bytes.NewReader(bytes.TrimPrefix(head, byteOrderMark))
	in := bufio.NewReaderSize(from, maxLine)
	layout, err := detect(in, cfg)
	if err == nil {
		err = cfg.checkEffects(layout.format)
	}
	if err != nil {
		return nil, err
	}

	cfg.clients = newClients(cfg)
	layout.common.forwarded = layout.common.forwarded || cfg.Client != nil
	p := &Parser{Format: layout.format, cfg: cfg, lines: lineReader{in: in, most: maxLine}}
	if p.parse, err = cfg.parser(&p.lines, layout, newClock(cfg)); err != nil {
		if err == io.EOF {
			err = errors.New("no header line")
		}
		return nil, err
	}
	p.Header = int64(len(head) - from.Len() - in.Buffered())
	if p.lines.count == 0 {
		p.Header = 0
	}

	return p, nil
}

// Directive reports whether a line names the columns of those behind it. Whoever begins in the middle of a log parses those before.
func (p *Parser) Directive(line []byte) bool {
	return (p.Format == W3C || p.Format == Zeek) && bytes.HasPrefix(line, []byte("#"))
}

var byteOrderMark = []byte("\ufeff")

// MaxLine is how many bytes of a line a Parser looks at, at most.
const MaxLine = maxWhole

// Line parses one line. It is no event where it is blank or a directive. The event is valid until the next call.
func (p *Parser) Line(line []byte) (e Event, isEvent bool, err error) {
	line = trimEnd(bytes.TrimPrefix(line, byteOrderMark))
	if isBlank(line) {
		return Event{}, false, nil
	}
	if p.lines.cut = len(line) > p.lines.most; p.lines.cut {
		line = line[:p.lines.most]
	}

	e, err = p.parse(line)
	switch {
	case err == errDirective:
		return Event{}, false, nil
	case err != nil && p.lines.cut: // the parser blames the place of the cut; the cut itself is the cause
		return Event{}, false, p.lines.tooLong()
	case err != nil:
		return Event{}, false, fmt.Errorf("%w: %s", err, printable(line, maxText))
	}
	e.mapped = p.cfg.Map
	return e, true, nil
}
