package accesslog

import (
	"errors"
	"strings"
	"time"
)

var errHAProxy = errors.New("not a line of HAProxy's httplog")

// haproxyParser reads HAProxy's httplog, behind whatever syslog puts before it:
//
//	client:port [time] frontend backend/server timers status bytes cookies state connections queues {headers} "request"
//
// Source: HAProxy's configuration manual, 8.2.3. The times have no zone: they are taken for UTC unless the clock has one.
func haproxyParser(clock *clock, requests bool) parser {
	if clock.zone == nil {
		clock.zone = time.UTC
	}
	return func(line []byte) (Event, error) {
		list, ok := haproxyWords(line)
		if !ok {
			return Event{}, errHAProxy
		}

		at, err := clock.read(strings.Trim(list[1], "[]"), byMagnitude)
		if err != nil {
			return Event{}, err
		}
		event := Event{At: at, Key: []byte(peerOf(list[0])), Cost: 1}
		if requests {
			event.source = newHAProxyLine(list)
		}
		return event, nil
	}
}

// haproxyWords cuts a line into its words. The request is the last one.
func haproxyWords(line []byte) ([]string, bool) {
	if len(line) == 0 || line[len(line)-1] != '"' {
		return nil, false
	}

	// Captured headers may contain spaces, so words are counted from the left up to the status alone.
	list := words(line)
	if len(list) < 11 || !strings.HasPrefix(list[1], "[") || strings.Count(list[4], "/") != 4 || !strings.Contains(list[3], "/") {
		return nil, false
	}
	_, address := connected(list[0])
	return list, address
}

func newHAProxyLine(list []string) *textLine {
	request := list[len(list)-1]
	l := &textLine{{"ip", peerOf(list[0])}, {"request", request}}
	l.request(request)
	l.put("status", list[5])
	l.put("frontend", strings.TrimSuffix(list[2], "~"))
	return l
}
