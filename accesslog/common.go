package accesslog

import (
	"bytes"
	"errors"
	"time"
)

// Why a line is not of a common log.
var (
	errNoHost    = errors.New("no host before the first space")
	errNoTime    = errors.New("no [day/month/year:hour:minute:second zone]")
	errNoRequest = errors.New(`no closed "request" after the time`)
	errNoStatus  = errors.New("no three-digit status after the request")
)

// commonParser reads host ident user [time] "request" status; what follows does
// not matter, so a line of a combined log may end in its agent.
func commonParser() parser {
	var clock stamps
	return func(line []byte) (Event, error) {
		space := bytes.IndexByte(line, ' ')
		if space <= 0 {
			return Event{}, errNoHost
		}
		at, rest, err := clock.find(line[space:])
		if err != nil {
			return Event{}, err
		}
		if rest, err = afterRequest(rest); err != nil {
			return Event{}, err
		}
		if !startsWithStatus(rest) {
			return Event{}, errNoStatus
		}
		return Event{At: at, Key: line[:space], Cost: 1}, nil
	}
}

// afterRequest returns what follows ` "request" `. A backslash in the request
// escapes the next byte.
func afterRequest(rest []byte) ([]byte, error) {
	if len(rest) < 2 || rest[0] != ' ' || rest[1] != '"' {
		return nil, errNoRequest
	}
	rest = rest[2:]
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return nil, errNoRequest
		}
		slashes := 0
		for slashes < i && rest[i-1-slashes] == '\\' {
			slashes++
		}
		rest = rest[i+1:]
		if slashes%2 == 0 {
			return rest, nil
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

// stamps reads times and remembers the last day, for most lines are of one day.
type stamps struct {
	day  [len("02/Jan/2006")]byte
	zone [len("-0700")]byte
	base int64 // microseconds at which that day began in that zone
}

const stampLength = len("02/Jan/2006:15:04:05 -0700")

// find returns the first time in brackets and what follows it. A user's name may
// hold brackets too.
func (s *stamps) find(line []byte) (int64, []byte, error) {
	for {
		i := bytes.IndexByte(line, '[')
		if i < 0 {
			return 0, nil, errNoTime
		}
		line = line[i+1:]
		if len(line) > stampLength && line[stampLength] == ']' {
			if at, ok := s.parse(line[:stampLength]); ok {
				return at, line[stampLength+1:], nil
			}
		}
	}
}

func (s *stamps) parse(stamp []byte) (int64, bool) {
	day, zone := stamp[:11], stamp[21:]
	if !bytes.Equal(day, s.day[:]) || !bytes.Equal(zone, s.zone[:]) {
		start, err := time.Parse("02/Jan/2006 -0700", string(day)+" "+string(zone))
		if err != nil {
			return 0, false
		}
		copy(s.day[:], day)
		copy(s.zone[:], zone)
		s.base = start.UnixMicro()
	}
	hour, minute, second := twoDigits(stamp[12:]), twoDigits(stamp[15:]), twoDigits(stamp[18:])
	if stamp[11] != ':' || stamp[14] != ':' || stamp[17] != ':' || stamp[20] != ' ' ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	at := s.base + int64(hour*3600+minute*60+second)*1e6
	return at, checkInstant(at) == nil
}

// twoDigits returns the number of two digits, over 99 if they are not.
func twoDigits(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		return 100
	}
	return int(tens)*10 + int(ones)
}
