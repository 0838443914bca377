package main

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/policies"
)

// The names under which logs have the bytes of an answer's body, and the seconds until its end. Names whose unit differs from log to log,
// such as duration, are none.
var (
	answerSizes   = []string{"response.size", "body_bytes_sent", "bytes_sent", "http.response.body.bytes", "httpRequest.responseSize", "DownstreamContentSize", "sc-bytes"}
	answerSeconds = []string{"response.seconds", "request_time"}
)

var errNoStatus = errors.New("settle: the line has no status of an answer, so its cost stays")

// answerOf makes the response that settle sees of what a log has of it. Headers are fields such as response.headers.x-tokens.
func answerOf(e accesslog.Event) (*policies.Response, error) {
	text, _ := e.Field("status")
	status, err := strconv.Atoi(text)
	if err != nil {
		return nil, errNoStatus
	}

	a := &policies.Response{Status: status, Headers: http.Header{}}
	if seconds := numberOf(e, answerSeconds); seconds > 0 && seconds < 1e6 {
		a.Duration = time.Duration(seconds * float64(time.Second))
	}
	if size := numberOf(e, answerSizes); size > 0 && size < 1<<53 {
		a.Size = int64(size)
	}
	for name, value := range e.Under("response.headers") {
		a.Headers.Set(name, value)
	}
	return a, nil
}

// numberOf returns the first field that is a number, else 0.
func numberOf(e accesslog.Event, names []string) float64 {
	for _, name := range names {
		if text, ok := e.Field(name); ok {
			if x, err := strconv.ParseFloat(text, 64); err == nil {
				return x
			}
		}
	}
	return 0
}
