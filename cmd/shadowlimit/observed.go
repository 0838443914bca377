package main

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/policies"
)

// observed says by the response of each line what the limiter of that day did. A nil one is not asked.
type observed struct {
	text             string
	denies           *policies.ResponseExpression
	answers, unknown int64
	failure          error // of the first line without an answer
}

const observedHint = "such as 'response.status == 429', or 'response.limit_req_status == \"REJECTED\"'; " +
	"response has the fields of the log by their names"

// of returns what a line says. A line without a response, as of a client that left, says nothing.
func (s *observed) of(e accesslog.Event) replay.Observed {
	if s == nil {
		return replay.Unobserved
	}

	denied, err := s.denies.Of(e.Field)
	switch {
	case err != nil:
		if s.unknown++; s.failure == nil {
			s.failure = err
		}
		return replay.Unobserved
	case denied:
		s.answers++
		return replay.ObservedDenied
	}
	s.answers++
	return replay.ObservedAllowed
}

// isAuthoritative reports whether a side is the answers of the log.
func (s *observed) isAuthoritative(role algorithms.Role, side *policies.Side) bool {
	return s != nil && role == algorithms.Authoritative && side != nil && side.Logged()
}

// refuse is an error if no line of the log has an answer: the flag would have no effect.
func (s *observed) refuse() error {
	if s == nil || s.answers > 0 {
		return nil
	}
	return usagef(observedHint, "--observed %s: no line of the log has what it reads: %v", s.text, s.failure)
}
