package accesslog

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// lineReader reads lines without their ends and keeps a bounded part of each.
type lineReader struct {
	in    *bufio.Reader
	most  int    // bytes to keep of a line, at least the size of in
	count int64  // lines read
	cut   bool   // the last line was longer than most
	kept  []byte // the start of a line that did not fit into in
}

// next returns a line that is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.cut = false
	if err == bufio.ErrBufferFull {
		line, err = l.long(line)
	}

	// A last line without a newline is a line like any other.
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}

	l.count++
	return trimEnd(line), nil
}

// trimEnd removes the end of a line. bytes.TrimRight took a sixth of the time of
// reading a log.
func trimEnd(line []byte) []byte {
	n := len(line)
	for n > 0 && (line[n-1] == '\n' || line[n-1] == '\r') {
		n--
	}
	return line[:n]
}

// long reads on to the end of a line that begins with start.
func (l *lineReader) long(start []byte) ([]byte, error) {
	l.kept = append(l.kept[:0], start...)
	length := len(start)

	for {
		more, err := l.in.ReadSlice('\n')
		more = bytes.TrimSuffix(more, []byte("\n"))
		length += len(more)
		l.kept = append(l.kept, more[:min(len(more), l.most-len(l.kept))]...)

		if err != bufio.ErrBufferFull {
			l.cut = length > l.most
			return l.kept, err
		}
	}
}

func (l *lineReader) tooLong() error {
	return fmt.Errorf("the line is longer than %d KiB", l.most>>10)
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' {
			return false
		}
	}
	return true
}

// maxText bounds the bytes of a line or of a value in a message.
const maxText = 120

// printable writes text for a terminal, in at most most bytes: a log may contain
// escape sequences that an attacker has sent.
func printable(text []byte, most int) string {
	const dots = "..."
	out := make([]byte, 0, min(len(text), most)+utf8.UTFMax)
	fits := 0 // length of out up to which the dots still fit behind it

	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case strconv.IsPrint(r):
			out = append(out, text[:size]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}

		if len(out) > most {
			return string(out[:fits]) + dots
		}
		if len(out) <= most-len(dots) {
			fits = len(out)
		}

		text = text[size:]
	}

	return string(out)
}
