package accesslog

import (
	"bufio"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Event is one request of a log.
type Event struct {
	At   int64  // microseconds since the Unix epoch, floored
	Key  []byte // the key of the budget; valid until the next event
	Cost int64  // units, at least 0

	source lookup            // the fields of the line, valid until the next event; nil without Config.Requests and Config.Response
	mapped map[string]string // Config.Map
}

// lookup finds the fields of one line by their names.
type lookup interface {
	text(name string) (string, bool)
	under(name string) map[string]string
}

// Field returns a field of the request: method, path, route, host, query, user, ip, size, headers.NAME, as far as the log has
// it. Config.Map is asked first. Any other name is a field of the line. Config.Requests must be set.
func (e Event) Field(name string) (string, bool) {
	if e.source == nil {
		return "", false
	}

	from, mapped := e.mapped[name]
	if !mapped {
		return e.source.text(name)
	}
	text, ok := e.raw(from)
	switch name {
	case "ip":
		text = mappedAddress(text)
	case "path":
		_, text, _ = target(text)
	}
	return text, ok && text != ""
}

// raw returns a field of the line by its own name.
func (e Event) raw(name string) (string, bool) {
	if k, ok := e.source.(*known); ok {
		return k.lookup.text(name)
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

	found := e.source.under(name)
	for to := range e.mapped {
		if inner, ok := strings.CutPrefix(to, name+"."); ok {
			delete(found, inner)
			if text, ok := e.Field(to); ok {
				found[inner] = text
			}
		}
	}
	return found
}

// BadLine is a line that is no event.
type BadLine struct {
	Line int64  // from 1
	Text string // printable, at most 120 bytes
	Err  error
}

// NoEffectError is a wish that a log's format cannot fulfil, so that obeying it in silence would mislead.
type NoEffectError struct {
	Flag   string
	Format Format
	Advice string
}

// Error implements error.
func (e NoEffectError) Error() string {
	return fmt.Sprintf("%s has no effect on a log of the format %s: %s", e.Flag, e.Format, e.Advice)
}

// textFields are the fields of a line whose format knows their places. quoted.4 is the fourth text in quotes, and so on.
var textFields = []string{
	"ip", "user", "host", "method", "path", "query", "request", "status", "headers.referer", "headers.user-agent",
	"headers.x-forwarded-for", "frontend",
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
	if broken := (packedError{}); errors.As(err, &broken) {
		err = broken.after(result.Lines)
	}

	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}

	return result, err
}

// Config says how to read a log. The zero value detects the format.
type Config struct {
	Format Format
	Fields Fields
	// Requests keeps the fields for Event.Field. A line of a format with names then needs no key.
	Requests bool
	// Response keeps the fields for Event.Field, too, and the key as well.
	Response bool
	// Map names, for fields of a request such as user or headers.x-tenant, the field of the log that has it.
	Map map[string]string
	// TimeFormat is the form of the times; the zero value means all known ones.
	TimeFormat TimeFormat
	// Zone is of times without a zone; nil refuses them where the format does not say UTC.
	Zone *time.Location
	// Client, if set, finds the client by a line's peer and its X-Forwarded-For; nil takes the networks of one's own for proxies.
	Client func(peer, forwarded string) string
	// OnBadLine, if set, is called for every line that is skipped because it is no event.
	OnBadLine func(BadLine)

	clients *clients // of the log that is read
}

// fields reports whether lines keep their fields.
func (c Config) fields() bool { return c.Requests || c.Response || c.Map["ip"] != "" }

// checkEffects refuses options that have no effect on a format.
func (c Config) checkEffects(f Format) error {
	if f.ByClient() {
		const advice = "its fields have fixed places; name expressions by --key or --config"
		for _, one := range []struct{ flag, value string }{
			{"--time-field", c.Fields.Time}, {"--key-field", c.Fields.Key}, {"--cost-field", c.Fields.Cost},
		} {
			if one.value != "" {
				return NoEffectError{one.flag, f, advice}
			}
		}
		for _, from := range slices.Sorted(maps.Values(c.Map)) {
			if !slices.Contains(textFields, from) && !strings.HasPrefix(from, "quoted.") {
				return NoEffectError{"--map ..." + "=" + from, f, "its fields are " + strings.Join(textFields, ", ") + " and quoted.N"}
			}
		}
	}

	if c.TimeFormat.layout != "" && kinds[f].oneForm {
		return NoEffectError{"--time-format", f, "its times have one form"}
	}
	if c.Zone != nil && kinds[f].utc {
		return NoEffectError{"--time-zone", f, "its times are in UTC"}
	}
	return nil
}

func (c Config) read(in *bufio.Reader, result *Result, emit func(Event) error) (err error) {
	layout, err := detect(in, c)
	if err != nil {
		return err
	}
	result.Format = layout.format
	if err := c.checkEffects(layout.format); err != nil {
		return err
	}
	if c.Map != nil {
		emitted := emit
		emit = func(e Event) error {
			e.mapped = c.Map
			return emitted(e)
		}
	}

	// Whoever names proxies knows that the log has X-Forwarded-For, even where its first lines do not.
	c.clients = newClients(c)
	layout.common.forwarded = layout.common.forwarded || c.Client != nil

	lines := lineReader{in: in, most: maxLine}
	clock := newClock(c)
	parse, err := c.parser(&lines, layout, clock)
	result.Lines = lines.count // a CSV header has been read

	if err == io.EOF {
		return nil // no header, so no records
	}
	if err != nil {
		return err
	}

	err = readLines(&lines, parse, c, result, emit)
	result.Zoned = clock.zoned
	return err
}

// firstOf is how many lines of a log make its fingerprint.
const firstOf = 100

func readLines(lines *lineReader, parse parser, c Config, result *Result, emit func(Event) error) error {
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

		if result.Events+result.Bad < firstOf {
			result.Sum = result.Sum*31 + maphash.Bytes(seed, line) // the order of lines matters
		}
		event, err := parse(line)
		if err == nil {
			result.Events++
			c.clients.count(result)
			if err := emit(event); err != nil {
				return err
			}
			continue
		}
		if err == errDirective {
			continue
		}

		result.Bad++
		if c.OnBadLine != nil {
			// The parser blames the place of the cut; the cut itself is the cause.
			if lines.cut {
				err = lines.tooLong()
			}
			c.OnBadLine(BadLine{lines.count, printable(line, maxText), err})
		}
	}
}

var seed = maphash.MakeSeed()

// parser returns the parser of a layout. It reads the header where the format has one.
func (c Config) parser(lines *lineReader, l layout, clock *clock) (parse parser, err error) {
	if l.prefix != nil && l.format == CSV {
		return nil, errors.New("CSV behind a prefix: remove the prefix")
	}

	kind := kinds[max(l.format, Common)] // an empty log has no format, and any parser does
	if kind.whole || l.prefix != nil {
		lines.most = maxWhole // a line of JSON may be behind a prefix
	}
	if parse, err = kind.parser(lines, c, l, clock); err != nil {
		return nil, err
	}
	if kind.whole {
		parse = whole(lines, parse)
	}
	if l.prefix != nil {
		parse = behind(l.prefix, parse)
	}
	return c.mapped(parse), nil
}

// mapped makes the key of the field that the user says has the client. Expressions make keys of their own, and a line without
// the field may do for them.
func (c Config) mapped(parse parser) parser {
	from := c.Map["ip"]
	if from == "" || c.Requests {
		return parse
	}
	return func(line []byte) (Event, error) {
		e, err := parse(line)
		if err != nil {
			return e, err
		}
		e.mapped = c.Map
		address, ok := e.Field("ip")
		if !ok {
			return e, fmt.Errorf("no field %q that has the client's address", from)
		}
		e.Key = []byte(address)
		return e, nil
	}
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
