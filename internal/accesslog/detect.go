package accesslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// detect returns the format of the first lines and consumes nothing. Junk before the
// first line of a format is skipped, because logs often begin with the remains of an
// older file.
func detect(in *bufio.Reader, fields Fields) (Format, error) {
	head, err := in.Peek(maxLine)
	lines := firstLines(head)
	if len(lines) == 0 {
		return Auto, nil // an empty log, or an error that reading meets again
	}

	// A header with the wanted fields is certain. It is checked first, because the cells
	// of its records may look like objects.
	header := isText(lines[0]) && bytes.IndexByte(lines[0], ',') >= 0
	if header && hasFields(lines[0], fields) {
		return CSV, nil
	}

	var clock stamps
	for _, line := range lines {
		if isObject(line) {
			return JSONL, nil
		}
		if _, rest, err := clock.event(line); err == nil {
			return commonOrCombined(rest), nil
		}
	}

	if err != nil && err != io.EOF {
		return Auto, err
	}

	// A header without the wanted fields counts last. Read as CSV, the log gets an error
	// that names the fields it has, which helps more than an unknown format.
	if header {
		return CSV, nil
	}

	return Auto, fmt.Errorf("cannot tell the format (not common, combined, jsonl or csv); say --format; it begins with `%s`",
		printable(lines[0], maxText))
}

// firstLines returns the first lines that are not blank, at most a hundred.
func firstLines(head []byte) (lines [][]byte) {
	for len(head) > 0 && len(lines) < 100 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		if line = bytes.TrimRight(line, "\r"); !isBlank(line) {
			lines = append(lines, line)
		}
		head = rest
	}
	return lines
}

func isObject(line []byte) bool {
	var o object
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")) && json.Unmarshal(line, &o) == nil
}

func isText(line []byte) bool {
	return utf8.Valid(line) && bytes.IndexFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) < 0
}

func hasFields(line []byte, fields Fields) bool {
	header, err := record(line)
	return err == nil && slices.Contains(header, fields.key()) &&
		slices.ContainsFunc(fields.times(), func(name string) bool { return slices.Contains(header, name) })
}

// commonOrCombined decides by the text after the status.
func commonOrCombined(rest []byte) Format {
	if isCombined(rest) {
		return Combined
	}
	return Common
}
