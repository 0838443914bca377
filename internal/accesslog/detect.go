package accesslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// layout is how the lines of a log are read.
type layout struct {
	format Format
	prefix prefix // nil: none
	comma  byte   // of CSV
	common commonLayout
}

// detect returns the layout of the first lines and consumes nothing. Junk before the
// first line of a format is skipped, because logs often begin with the remains of an
// older file.
func detect(in *bufio.Reader, cfg Config) (layout, error) {
	head, err := in.Peek(maxLine)
	lines := firstLines(head)
	if len(lines) == 0 {
		return layout{format: cfg.Format, comma: ','}, nil // an empty log, or an error that reading meets again
	}
	d := detector{cfg: cfg, clock: newClock(cfg)}
	if d.clock.zone == nil {
		d.clock.zone = time.UTC
	}

	// A header with the wanted fields is certain. It is checked first, because the cells
	// of its records may look like objects.
	comma, known, header := separatorOf(lines[0], cfg)
	if cfg.Format == CSV || cfg.Format == Auto && known {
		return layout{format: CSV, comma: comma}, nil
	}

	// The last object of an array has no comma behind it, and would be the whole log.
	if cfg.Format == Auto && string(bytes.TrimSpace(lines[0])) == "[" {
		return layout{}, unknown(lines)
	}

	for _, line := range lines {
		if l, ok := d.detect(line); ok {
			l.common.forwarded = slices.ContainsFunc(lines, d.hasThirdText(l))
			return l, nil
		}
	}
	if err != nil && err != io.EOF {
		return layout{}, err
	}

	// The lines of a format that was named say themselves why they cannot be read.
	if cfg.Format != Auto {
		return layout{format: cfg.Format}, nil
	}

	// A header without the wanted fields counts last. Read as CSV, the log gets an error
	// that names the fields it has, which helps more than an unknown format.
	if header {
		return layout{format: CSV, comma: comma}, nil
	}
	return layout{}, unknown(lines)
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

// detector finds the layout of a line.
type detector struct {
	cfg   Config
	clock *clock
}

// detect tries the formats on a line, and on what each prefix leaves of it. A common log comes last: its host may be anything,
// so the line of another format may seem one.
func (d *detector) detect(line []byte) (layout, bool) {
	for _, cut := range prefixes {
		rest, found := cut(line)
		if !found || len(rest) == 0 {
			continue
		}
		if l, ok := d.bare(rest); ok && l.format != Zeek && l.format != W3C {
			l.prefix = cut
			return l, true
		}
	}
	return d.bare(line)
}

func (d *detector) bare(line []byte) (layout, bool) {
	for f, k := range kinds {
		if format := Format(f); k.is != nil && d.wants(format) && k.is(line) {
			return layout{format: format}, true
		}
	}

	if d.wants(VHost) && isVHost(line) {
		if _, rest := cutWord(line); d.isCommon(rest) {
			return layout{format: VHost, common: commonLayout{vhost: true}}, true
		}
	}
	if !d.wants(Common) && !d.wants(Combined) {
		return layout{}, false
	}
	_, _, rest, err := d.clock.event(line)
	if err != nil {
		return layout{}, false
	}
	format := commonOrCombined(rest)
	if d.cfg.Format != Auto {
		format = d.cfg.Format
	}
	return layout{format: format}, true
}

func (d *detector) wants(f Format) bool { return d.cfg.Format == Auto || d.cfg.Format == f }

func (d *detector) isCommon(line []byte) bool {
	_, _, _, err := d.clock.event(line)
	return err == nil
}

// hasThirdText reports whether a line of a layout has a third text in quotes behind its status, which may be X-Forwarded-For.
func (d *detector) hasThirdText(l layout) func([]byte) bool {
	return func(line []byte) bool {
		if l.prefix != nil {
			if rest, found := l.prefix(line); found {
				line = rest
			}
		}
		_, _, rest, err := d.clock.event(line)
		return err == nil && len(quotedTexts(rest)) >= 3
	}
}

func isObject(line []byte) bool {
	var o object
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")) && json.Unmarshal(line, &o) == nil
}

func isW3C(line []byte) bool {
	_, ok := cutDirective(line, "#Fields:")
	return ok
}

func isZeek(line []byte) bool { return bytes.HasPrefix(line, []byte("#fields")) }

// isVHost reports whether the second word is the client, and the first one is not: Apache's vhost_combined has the virtual
// host with its port, other logs have it without.
func isVHost(line []byte) bool {
	first, rest := cutWord(line)
	second, after := cutWord(rest)
	if _, address := addressOf(string(first)); address && bytes.IndexByte(first, ':') < 0 {
		return false
	}
	if string(first) == "-" || bytes.HasSuffix(first, []byte(",")) {
		return false // X-Forwarded-For: see cutHosts
	}
	if _, address := addressOf(strings.TrimSuffix(string(second), ",")); address {
		return true
	}

	// A client may have a name, too. Then the port and the number of words tell the host from it.
	names, _, _ := bytes.Cut(after, []byte("["))
	return withPort.Match(first) && len(bytes.Fields(names)) == 2
}

var withPort = regexp.MustCompile(`^[^\s:]+:[0-9]{1,5}$`)

func isText(line []byte) bool {
	return utf8.Valid(line) && bytes.IndexFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) < 0
}

// separatorOf returns the separator of a header of CSV, whether it has the fields that are wanted, and whether it is a header
// at all. A line without any is of one column.
func separatorOf(line []byte, cfg Config) (comma byte, known, header bool) {
	comma = ','
	if !isText(line) {
		return comma, false, false
	}

	for _, c := range []byte(",;\t|") {
		if bytes.IndexByte(line, c) < 0 {
			continue
		}
		names, err := record(line, c)
		if err != nil || len(names) < 2 {
			continue
		}
		if hasFields(names, cfg) {
			return c, true, true
		}
		if !header && !slices.ContainsFunc(names, func(name string) bool { return !columnName.MatchString(name) }) {
			comma, header = c, true
		}
	}
	return comma, false, header
}

// columnName is a name as headers have them. Values of most lines are none.
var columnName = regexp.MustCompile(`^ ?[A-Za-z_@][A-Za-z0-9_@ ./()#:-]{0,63}$`)

func hasFields(names []string, cfg Config) bool {
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	key := slices.Contains(names, cfg.Fields.key()) || cfg.Fields.Key == "" && (hasAddress(names) || cfg.Requests)
	return key && slices.ContainsFunc(cfg.Fields.times(), func(name string) bool { return slices.Contains(names, name) })
}

// commonOrCombined decides by the text after the status.
func commonOrCombined(rest []byte) Format {
	if isCombined(rest) {
		return Combined
	}
	return Common
}
