package accesslog

import (
	"strings"
	"time"
)

// haproxyParser reads HAProxy's httplog. Its times have no zone: they are taken for UTC unless the clock has one.
func haproxyParser(lines *lineReader, cfg Config, l layout, clock *clock) (parser, error) {
	if clock.zone == nil {
		clock.zone = time.UTC
	}
	return placedParser(cutHAProxy)(lines, cfg, l, clock)
}

// cutHAProxy cuts lines of HAProxy's httplog, behind whatever syslog puts before it:
//
//	client:port [time] frontend backend/server timers status bytes cookies state connections queues {headers} "request"
//
// Source: HAProxy's configuration manual, 8.2.3.
func cutHAProxy(line []byte, l *textLine) (instant string, ok bool) {
	if len(line) == 0 || line[len(line)-1] != '"' {
		return "", false
	}

	// Captured headers may contain spaces, so words are counted from the left up to the status, and the request is the last one.
	list := words(line)
	if len(list) < 11 || !strings.HasPrefix(list[1], "[") || strings.Count(list[4], "/") != 4 || !strings.Contains(list[3], "/") {
		return "", false
	}
	client, ok := connected(list[0])
	if !ok {
		return "", false
	}

	request := list[len(list)-1]
	l.set("ip", client)
	l.set("request", request)
	l.request(request)
	l.put("status", list[5])
	l.put("frontend", strings.TrimSuffix(list[2], "~"))
	return strings.Trim(list[1], "[]"), true
}
