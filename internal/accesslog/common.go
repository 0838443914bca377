package accesslog

import (
	"bytes"
	"errors"
	"strings"
	"time"
)

// Reasons why a line is not a line of a common log.
var (
	errNoHost    = errors.New("no host before the first space")
	errNoTime    = errors.New("no [day/month/year:hour:minute:second zone] after host, ident and user")
	errTimeEnds  = errors.New("the line ends within its time")
	errBadTime   = errors.New("the time in brackets is not a valid day/month/year:hour:minute:second zone")
	errNoRequest = errors.New(`no closed "request" after the time`)
	errNoStatus  = errors.New("no three-digit status after the request")
)

// commonParser reads host ident user [time] "request" status. The text after the
// status does not matter, so a cut line of a combined log may end within its agent.
func commonParser(requests bool) parser {
	var clock stamps
	return func(line []byte) (Event, error) {
		event, rest, err := clock.event(line)
		if err == nil && requests {
			event.source = newCommonLine(line[:len(line)-len(rest)], rest)
		}
		return event, err
	}
}

// commonLine has the fields of a line by their names.
type commonLine map[string]string

// newCommonLine reads the fields of a line: head ends with its status, rest follows.
func newCommonLine(head, rest []byte) commonLine {
	l := commonLine{}

	host, after, _ := strings.Cut(string(head), " ")
	l["ip"] = host

	before, request, _ := strings.Cut(after, "] \"")
	if names := strings.Fields(before); len(names) >= 3 && names[1] != "-" {
		l["user"] = names[1]
	}

	// A request that is no HTTP, such as a TLS hello on a plain port, has no two words.
	request = request[:max(0, strings.LastIndexByte(request, '"'))]
	if words := strings.Fields(request); len(words) >= 2 {
		l["method"] = words[0]
		l["path"], l["query"], _ = strings.Cut(words[1], "?")
	}

	quoted := strings.Split(string(rest), "\"")
	for i, name := range map[int]string{1: "headers.referer", 3: "headers.user-agent"} {
		if i < len(quoted) && quoted[i] != "-" {
			l[name] = quoted[i]
		}
	}

	return l
}

func (l commonLine) text(name string) (string, bool) {
	v, ok := l[name]
	return v, ok
}

func (l commonLine) under(name string) map[string]string {
	found := map[string]string{}
	for field, value := range l {
		if inner, ok := strings.CutPrefix(field, name+"."); ok {
			found[inner] = value
		}
	}
	return found
}

// event returns the event of a line and the text after its status.
func (s *stamps) event(line []byte) (Event, []byte, error) {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 {
		return Event{}, nil, errNoHost
	}

	at, rest, err := s.find(line[space+1:])
	if err != nil {
		return Event{}, nil, err
	}

	rest, closed := afterQuoted(rest)
	if !closed {
		return Event{}, nil, errNoRequest
	}
	if !startsWithStatus(rest) {
		return Event{}, nil, errNoStatus
	}

	return Event{At: at, Key: line[:space], Cost: 1}, rest[4:], nil
}

// isCombined reports whether the text after the status is a size, a quoted referer
// and the opening quote of an agent. The closing quote may be missing on long lines.
func isCombined(rest []byte) bool {
	i := bytes.Index(rest, []byte(` "`))
	if i < 0 {
		return false
	}
	rest, closed := afterQuoted(rest[i:])
	return closed && bytes.HasPrefix(rest, []byte(` "`))
}

// afterQuoted returns the text after ` "text"` and reports whether the quotes close.
// A backslash in the text escapes the next byte.
func afterQuoted(rest []byte) ([]byte, bool) {
	rest = rest[len(` "`):]
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return nil, false
		}

		// A quote after an even number of backslashes is not escaped: they escape each other.
		slashes := 0
		for slashes < i && rest[i-1-slashes] == '\\' {
			slashes++
		}

		rest = rest[i+1:]
		if slashes%2 == 0 {
			return rest, true
		}
	}
}

func startsWithStatus(rest []byte) bool {
	if len(rest) < 4 || rest[0] != ' ' || len(rest) > 4 && rest[4] != ' ' {
		return false
	}

	for _, c := range rest[1:4] {
		if c < '0' || c > '9' {
			return false
		}
	}

	return true
}

// stamps reads times. It remembers the last day, because most lines have the same day
// as the line before, and time.Parse would take most of the time of reading a log.
type stamps struct {
	day  [len("02/Jan/2006")]byte
	zone [len("-0700")]byte
	base int64 // microseconds at which day began in zone
}

const stampLength = len("02/Jan/2006:15:04:05 -0700")

// find returns the time between the user and the request, and the text after it. The
// name of a user may contain spaces, brackets and even times, so each bracket is tried
// until one holds a time with a request behind it.
func (s *stamps) find(line []byte) (at int64, rest []byte, err error) {
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
		if at, err = s.bracketed(line); err != nil {
			if why != errNoRequest {
				why = err
			}
			continue
		}

		if rest = line[stampLength+1:]; len(rest) > 1 && rest[0] == ' ' && rest[1] == '"' {
			return at, rest, nil
		}

		why = errNoRequest
	}
}

// bracketed reads the time at the start of a line, up to its closing bracket.
func (s *stamps) bracketed(line []byte) (int64, error) {
	if len(line) <= stampLength && bytes.IndexByte(line, ']') < 0 {
		return 0, errTimeEnds
	}
	if len(line) <= stampLength || line[stampLength] != ']' {
		return 0, errBadTime
	}
	return s.parse(line[:stampLength])
}

func (s *stamps) parse(stamp []byte) (int64, error) {
	day, zone := stamp[:11], stamp[21:]
	if !bytes.Equal(day, s.day[:]) || !bytes.Equal(zone, s.zone[:]) {
		start, err := time.Parse("02/Jan/2006 -0700", string(day)+" "+string(zone))
		if err != nil {
			return 0, errBadTime
		}
		copy(s.day[:], day)
		copy(s.zone[:], zone)
		s.base = start.UnixMicro()
	}

	if stamp[11] != ':' || stamp[14] != ':' || stamp[17] != ':' || stamp[20] != ' ' {
		return 0, errBadTime
	}

	hour, minute, second := twoDigits(stamp[12:]), twoDigits(stamp[15:]), twoDigits(stamp[18:])
	if hour > 23 || minute > 59 || second > 59 {
		return 0, errBadTime
	}

	at := s.base + int64(hour*3600+minute*60+second)*1e6
	return at, checkInstant(at)
}

// twoDigits returns the number that two digits make, or 100 if they are no digits.
func twoDigits(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		return 100
	}
	return int(tens)*10 + int(ones)
}
