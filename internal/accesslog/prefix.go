package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// prefix cuts what a log collector has put around a line, and reports whether it was there.
type prefix func(line []byte) (rest []byte, found bool)

// prefixes are the ones that are known. Each is tried on its own; the rest of the line must be of a known format.
var prefixes = append(
	[]prefix{containerd, cutSyslog, cutSyslog5424, cutRsyslog, cutTimestamp, compose, kubectl, inQuotes}, collected(
		"log",            // docker
		"MESSAGE",        // journald
		"textPayload",    // Google Cloud
		"message", "msg", // Elastic's agents and many others
		"event.original", // Elastic's pipelines
		"line",           // Loki
		"_raw",           // Splunk
	)...)

// behind parses what a prefix leaves of a line, or the whole line where the prefix is missing.
func behind(cut prefix, parse parser) parser {
	return func(line []byte) (Event, error) {
		if rest, found := cut(line); found {
			if len(rest) == 0 {
				return Event{}, errEmpty
			}
			return parse(rest)
		}
		return parse(line)
	}
}

var errEmpty = errors.New("nothing behind the prefix")

// containerd cuts 2020-01-02T15:04:05.123456789Z stdout F. A part of a line, marked P, is left to be a bad line.
func containerd(line []byte) ([]byte, bool) {
	rest, found := cutTimestamp(line)
	if !found {
		return nil, false
	}
	for _, stream := range []string{"stdout F ", "stderr F "} {
		if after, ok := bytes.CutPrefix(rest, []byte(stream)); ok {
			return after, true
		}
	}
	return nil, false
}

// collected are the fields of a JSON object in which collectors keep a line.
func collected(names ...string) (list []prefix) {
	for _, name := range names {
		list = append(list, func(line []byte) ([]byte, bool) {
			if len(line) == 0 || line[0] != '{' {
				return nil, false
			}
			text, ok := unwrapped(line).text(name)
			return trimEnd([]byte(text)), ok
		})
	}
	return list
}

// cutSyslog cuts <134>Jan  2 15:04:05 host program[1]: of RFC 3164; the number and the host may be missing.
func cutSyslog(line []byte) ([]byte, bool) {
	line = cutPriority(line)
	const stamp = len("Jan _2 15:04:05 ")
	if len(line) < stamp || line[3] != ' ' || line[6] != ' ' || line[9] != ':' || line[12] != ':' || line[15] != ' ' ||
		!slices.Contains(months, string(line[:3])) {
		return nil, false
	}
	return cutTag(line[stamp:])
}

var months = []string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// cutRsyslog cuts 2020-01-02T15:04:05.123456+00:00 host program[1]:
func cutRsyslog(line []byte) ([]byte, bool) {
	rest, found := cutTimestamp(cutPriority(line))
	if !found {
		return nil, false
	}
	return cutTag(rest)
}

// cutTag cuts host program[1]: the tag is the first or the second word, and ends in a colon.
func cutTag(line []byte) ([]byte, bool) {
	for range 2 {
		word, rest := cutWord(line)
		if len(word) > 0 && word[len(word)-1] == ':' {
			return bytes.TrimLeft(rest, " "), true
		}
		line = rest
	}
	return nil, false
}

// cutSyslog5424 cuts <134>1 2020-01-02T15:04:05Z host app process message [structured data].
func cutSyslog5424(line []byte) ([]byte, bool) {
	rest := cutPriority(line)
	if len(rest) == len(line) {
		return nil, false
	}
	for range 6 {
		_, rest = cutWord(rest)
	}

	if after, none := bytes.CutPrefix(rest, []byte("- ")); none {
		rest = after
	} else if i := bytes.Index(rest, []byte("] ")); bytes.HasPrefix(rest, []byte("[")) && i >= 0 {
		rest = rest[i+2:]
	} else {
		return nil, false
	}
	return bytes.TrimPrefix(rest, []byte("\ufeff")), true
}

// cutPriority cuts the number of syslog, such as <134>.
func cutPriority(line []byte) []byte {
	const longest = len("<191>")
	if end := bytes.IndexByte(line[:min(len(line), longest)], '>'); end > 1 && line[0] == '<' {
		return line[end+1:]
	}
	return line
}

// cutTimestamp cuts an RFC 3339 time, as kubectl logs --timestamps writes it.
func cutTimestamp(line []byte) ([]byte, bool) {
	word, rest := cutWord(line)
	if len(word) < len("2006-01-02T15:04:05Z") || word[4] != '-' || word[10] != 'T' {
		return nil, false
	}
	_, err := parseStamp(string(word))
	return rest, err == nil
}

// compose cuts web-1  | of docker compose.
func compose(line []byte) ([]byte, bool) {
	name, rest := cutWord(line)
	after, found := bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte("| "))
	return after, found && len(name) > 0
}

// kubectl cuts [pod/web-1/nginx] of kubectl logs --prefix.
func kubectl(line []byte) ([]byte, bool) {
	i := bytes.Index(line, []byte("] "))
	if i < 0 || !bytes.HasPrefix(line, []byte("[pod/")) {
		return nil, false
	}
	return line[i+2:], true
}

// inQuotes takes a line out of quotes in which an export has put it, as CSV or as JSON does.
func inQuotes(line []byte) ([]byte, bool) {
	if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
		return nil, false
	}

	inner := line[1 : len(line)-1]
	if bytes.Contains(inner, []byte(`""`)) {
		return bytes.ReplaceAll(inner, []byte(`""`), []byte(`"`)), true
	}
	var text string
	if json.Unmarshal(line, &text) == nil {
		return []byte(text), true
	}
	return inner, true
}
