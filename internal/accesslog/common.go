package accesslog

import (
	"bytes"
	"errors"
	"strconv"
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

// commonLayout says what a common log has besides the fields of its name.
type commonLayout struct {
	vhost     bool // the virtual host comes first
	forwarded bool // a third text in quotes may be X-Forwarded-For
}

// commonParser reads host ident user [time] "request" status. The text after the
// status does not matter, so a cut line of a combined log may end within its agent.
func commonParser(_ *lineReader, cfg Config, layout layout, clock *clock) (parser, error) {
	l, fields := &commonLine{}, cfg.fields()
	return func(line []byte) (Event, error) {
		var vhost []byte
		if layout.common.vhost {
			vhost, line = cutWord(line)
		}

		event, list, rest, err := clock.event(line)
		if err != nil {
			return event, err
		}
		forwarded := string(list)
		if layout.common.forwarded && list == nil {
			forwarded = thirdText(rest)
		}
		if forwarded != "" {
			event.Key = []byte(cfg.clients.find(string(event.Key), forwarded))
		}
		if fields {
			l.read(line[:len(line)-len(rest)], rest)
			l.put("host", string(vhost))
			l.put("headers.x-forwarded-for", string(list))
			l.set("ip", string(event.Key))
			event.source = l
		}
		return event, nil
	}, nil
}

// cutHosts cuts what a common line begins with: the client, or X-Forwarded-For, a list with a comma behind each entry but the last.
// Behind the list may stand the peer, which then is no part of the list; else the last entry is the nearest to a peer that there is.
func cutHosts(line []byte) (peer, forwarded, rest []byte) {
	end := bytes.IndexByte(line, ' ')
	for end > 0 && line[end-1] == ',' {
		next := bytes.IndexByte(line[end+1:], ' ')
		if next < 0 {
			return nil, nil, nil
		}
		end += 1 + next
	}
	if end <= 0 {
		return nil, nil, nil
	}

	peer, rest = line[:end], line[end+1:]
	if word, after := cutWord(rest); len(word) > 1 {
		if _, address := addressOf(string(word)); address {
			return word, peer, after
		}
	}
	if i := bytes.LastIndexByte(peer, ','); i >= 0 {
		return bytes.TrimSpace(peer[i+1:]), peer, rest
	}
	return peer, nil, rest
}

// cutWord cuts a line behind its first word.
func cutWord(line []byte) (word, rest []byte) {
	word, rest, _ = bytes.Cut(line, []byte(" "))
	return word, rest
}

// thirdText is the third text in quotes behind the status, where nginx has X-Forwarded-For.
func thirdText(rest []byte) string {
	if quoted := quotedTexts(rest); len(quoted) >= 3 {
		return quoted[2]
	}
	return ""
}

// commonLine has the fields of a line. Most policies read nothing behind the status, so that is read when it is asked for.
type commonLine struct {
	textLine
	rest []byte // behind the status, and not read yet
}

// read reads the fields up to the status, with which head ends; rest follows.
func (l *commonLine) read(head, rest []byte) {
	l.textLine, l.rest = l.textLine[:0], rest

	_, _, names := cutHosts(head)
	after := string(names)

	// The time follows the user, so a line without a third word has none.
	before, request, _ := strings.Cut(after, "] \"")
	_, before = cutSpaces(before)
	user, dated := cutSpaces(before)
	if strings.TrimLeft(dated, " ") != "" && user != "-" {
		l.set("user", user)
	}

	end := max(0, strings.LastIndexByte(request, '"'))
	line := unescape(request[:end])
	l.set("request", line)
	l.request(line)
	l.put("status", strings.TrimSpace(request[min(len(request), end+1):]))
}

func (l *commonLine) text(name string) (string, bool) {
	if strings.HasPrefix(name, "headers.") || strings.HasPrefix(name, "quoted.") {
		l.readRest()
	}
	return l.textLine.text(name)
}

func (l *commonLine) under(name string) map[string]string {
	l.readRest()
	return l.textLine.under(name)
}

// readRest reads the texts in quotes behind the status.
func (l *commonLine) readRest() {
	if l.rest == nil {
		return
	}
	quoted := quotedTexts(l.rest)
	l.rest = nil

	// What follows the agent has no fixed meaning. nginx writes X-Forwarded-For there by default.
	for i, name := range commonHeaders {
		if i < len(quoted) && (i < 2 || lastOutside(quoted[i]) != "") {
			l.put(name, quoted[i])
		}
	}
	for i := 2; i < len(quoted); i++ {
		l.put("quoted."+strconv.Itoa(i+2), quoted[i]) // the request is the first
	}
}

// commonHeaders are the texts in quotes behind the status, in their order.
var commonHeaders = []string{"headers.referer", "headers.user-agent", "headers.x-forwarded-for"}

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
	_, after, closed := cutQuoted(rest[len(` "`):])
	return after, closed
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
