package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// clock reads the times of a log, and remembers the last day, because most lines have the same day as the line before.
type clock struct {
	stamps
	layout string         // of package time; "" means the known forms
	zone   *time.Location // of times without a zone; nil refuses them
	zoned  bool           // a time had no zone, so that zone has decided it
}

func newClock(c Config) *clock { return &clock{layout: c.TimeFormat.layout, zone: c.Zone} }

// find returns the time between the user and the request, and the text after it. The
// name of a user may contain spaces, brackets and even times, so each bracket is tried
// until one holds a time with a request behind it.
func (c *clock) find(line []byte) (at int64, rest []byte, err error) {
	if bytes.IndexByte(line, ' ') <= 0 {
		return 0, nil, errNoTime
	}

	why := errNoTime
	for {
		i := bytes.IndexByte(line, '[')
		if i < 0 {
			return 0, nil, why
		}

		afterSpace := i > 0 && line[i-1] == ' '
		line = line[i+1:]
		if !afterSpace {
			continue
		}

		// errNoRequest is the better reason: a line with a valid time lacks only its request.
		at, length, err := c.bracketed(line)
		if err != nil {
			if why != errNoRequest {
				why = err
			}
			continue
		}

		if rest = line[length+1:]; len(rest) > 1 && rest[0] == ' ' && rest[1] == '"' {
			return at, rest, nil
		}

		why = errNoRequest
	}
}

// bracketed reads the time at the start of a line, up to its closing bracket, and returns its length.
func (c *clock) bracketed(line []byte) (at int64, length int, err error) {
	// Nearly every log has this form, and no other is as quick to read.
	if len(line) > stampLength && line[stampLength] == ']' && c.layout == "" {
		if at, err = c.parse(line[:stampLength]); err == nil {
			return at, stampLength, nil
		}
	}

	const longest = 64
	length = bytes.IndexByte(line[:min(len(line), longest)], ']')
	if length < 0 && len(line) <= stampLength {
		return 0, 0, errTimeEnds
	}
	if length < 0 {
		return 0, 0, errBadTime
	}

	at, err = c.read(string(line[:length]), byMagnitude)
	if err != nil && !errors.Is(err, errZone) && !errors.Is(err, errInstant) {
		err = errBadTime
	}
	return at, length, err
}

// event returns the event of a line, whose key is its peer, the list of X-Forwarded-For that stands before it, and the text after
// its status.
func (c *clock) event(line []byte) (e Event, forwarded, rest []byte, err error) {
	peer, forwarded, rest := cutHosts(line)
	if peer == nil {
		return Event{}, nil, nil, errNoHost
	}

	at, rest, err := c.find(rest)
	if err != nil {
		return Event{}, nil, nil, err
	}

	rest, closed := afterQuoted(rest)
	if !closed {
		return Event{}, nil, nil, errNoRequest
	}
	if !startsWithStatus(rest) {
		return Event{}, nil, nil, errNoStatus
	}

	return Event{At: at, Key: plainHost(peer), Cost: 1}, forwarded, rest[4:], nil
}

// Forms of times besides RFC 3339 and numbers. A fraction of a second may follow the seconds of each.
var (
	zonedForms = []string{
		"02/Jan/2006:15:04:05 -0700", "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 Z07:00",
		"2006-01-02 15:04:05 MST", time.RFC1123Z,
	}
	bareForms = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "02/Jan/2006:15:04:05", "2006/01/02 15:04:05"}
)

// read returns the instant of a text, in microseconds since the Unix epoch. unit is for times that are numbers.
func (c *clock) read(text string, unit scale) (int64, error) {
	if c.layout != "" {
		return c.byLayout(text)
	}

	us, err := parseTime(text, unit)
	if err == nil {
		return us, nil
	}
	if len(text) == stampLength {
		if us, err := c.parse([]byte(text)); err == nil {
			return us, nil
		}
	}

	for _, form := range zonedForms {
		// Go takes an abbreviation that it does not know for UTC, so only UTC itself is read by its name.
		if strings.HasSuffix(form, "MST") && !strings.HasSuffix(text, " UTC") {
			continue
		}
		if t, err := time.Parse(form, text); err == nil {
			return t.UnixMicro(), checkInstant(t.UnixMicro())
		}
	}
	for _, form := range bareForms {
		if us, bareErr := c.bare(form, text); bareErr == nil || errors.Is(bareErr, errZone) {
			return us, bareErr
		}
	}
	return 0, err
}

// bare reads a time without a zone.
func (c *clock) bare(form, text string) (int64, error) {
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(form, text, zone)
	if err != nil {
		return 0, err
	}

	c.zoned = true
	if c.zone == nil {
		return 0, fmt.Errorf("time %s: %w", printable([]byte(text), maxText), errZone)
	}
	return t.UnixMicro(), checkInstant(t.UnixMicro())
}

func (c *clock) byLayout(text string) (int64, error) {
	if !hasZone(c.layout) {
		us, err := c.bare(c.layout, text)
		if err != nil && !errors.Is(err, errZone) {
			err = fmt.Errorf("time %s: not of the form of --time-format", printable([]byte(text), maxText))
		}
		return us, err
	}

	t, err := time.Parse(c.layout, text)
	if err != nil {
		t, err = time.Parse(strings.Replace(c.layout, "Z0700", "Z07:00", 1), text)
	}
	if err != nil {
		return 0, fmt.Errorf("time %s: not of the form of --time-format", printable([]byte(text), maxText))
	}
	return t.UnixMicro(), checkInstant(t.UnixMicro())
}

func hasZone(layout string) bool {
	return strings.Contains(layout, "Z07") || strings.Contains(layout, "-07")
}

// TimeFormat is the form of a log's times. The zero value is the forms that every log may have.
type TimeFormat struct{ layout string }

// ParseTimeFormat reads the directives of strftime, such as %d/%b/%Y:%H:%M:%S %z, or a layout of Go's package time. A
// fraction of a second is read where it follows the seconds, whether or not the form has it.
func ParseTimeFormat(text string) (TimeFormat, error) {
	if !strings.Contains(text, "%") {
		return goLayout(text)
	}

	var b strings.Builder
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		if err := literal(before, &b); err != nil {
			return TimeFormat{}, err
		}
		if !found {
			break
		}
		if after == "" {
			return TimeFormat{}, errors.New("a % without a letter at the end")
		}

		part, known := directives[after[0]]
		if !known {
			return TimeFormat{}, fmt.Errorf("%%%c: want one of %%Y %%m %%d %%H %%M %%S %%f %%z %%b %%B %%y %%I %%p %%a %%e %%T %%F", after[0])
		}
		// Go reads a fraction by itself, and would ask for its point twice.
		if after[0] == 'f' {
			kept := strings.TrimRight(b.String(), ".,")
			b.Reset()
			b.WriteString(kept)
		}
		b.WriteString(part)
		rest = after[1:]
	}
	return TimeFormat{b.String()}, nil
}

// directives are those of strftime that a log may have, as parts of a layout. %Z is none: one abbreviation may be of several zones.
var directives = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'f': "", 'z': "Z0700", 'b': "Jan", 'B': "January",
	'y': "06", 'I': "03", 'p': "PM", 'a': "Mon", 'A': "Monday", 'e': "_2", 'j': "002", 'T': "15:04:05", 'F': "2006-01-02",
	'D': "01/02/06", 'R': "15:04", '%': "%",
}

// literal copies text between directives. Digits and words would mean something else to package time.
func literal(text string, b *strings.Builder) error {
	for i := range len(text) {
		c := text[i]
		switch {
		case c == 'Z':
			b.WriteString("Z0700")
			continue
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' && c != 'T':
			return fmt.Errorf("%q between the directives: want only punctuation, T and Z", c)
		}
		b.WriteByte(c)
	}
	return nil
}

// goLayout takes a layout of package time that names a whole day: anything else is a misunderstanding.
func goLayout(text string) (TimeFormat, error) {
	probe := time.Date(2019, 11, 28, 21, 37, 46, 0, time.UTC)
	read, err := time.Parse(text, probe.Format(text))
	if err != nil || read.YearDay() != probe.YearDay() || read.Year() != probe.Year() || read.Hour() != probe.Hour() {
		return TimeFormat{}, errors.New("want directives such as %Y-%m-%d %H:%M:%S, or a layout of Go such as 2006-01-02 15:04:05")
	}
	return TimeFormat{text}, nil
}

// NeedsZone reports whether times of this form have no zone, so that Config.Zone has to name it.
func (f TimeFormat) NeedsZone() bool { return f.layout != "" && !hasZone(f.layout) }
