package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Bounds of one question. Policies are loaded if they are fast for texts of 8 KB.
const (
	mostBody    = 256 << 10
	mostRequest = 32 << 10
	mostBatch   = 100
	mostMessage = 300 // characters of an error
)

// check answers POST /v1/check: one request, or a list of them, which are charged in their order.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	requests, single, err := requestsOf(text)
	if err != nil {
		s.refuse(w, r, err)
		return
	}

	// The client may leave meanwhile. It is charged all the same, as in the middleware.
	answers := make([]answer, len(requests))
	for i, p := range requests {
		answers[i] = s.decide(r, p)
	}

	if single {
		writeJSON(w, http.StatusOK, &answers[0])
		return
	}
	writeJSON(w, http.StatusOK, answers)
}

// requestsOf reads one request, or a list. Of a list with a mistake nothing is charged.
func requestsOf(text []byte) (list []*policies.Request, single bool, err error) {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); !bytes.HasPrefix(trimmed, []byte("[")) {
		one, err := requestOf(text)
		return []*policies.Request{one}, true, err
	}

	var texts []json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, false, fmt.Errorf("the list of requests is no JSON: %w", err)
	}
	if len(texts) == 0 || len(texts) > mostBatch {
		return nil, false, fmt.Errorf("%d requests: a list has 1 to %d", len(texts), mostBatch)
	}

	for i, one := range texts {
		p, err := requestOf(one)
		if err != nil {
			return nil, false, fmt.Errorf("request %d: %w", i, err)
		}
		list = append(list, p)
	}
	return list, false, nil
}

func requestOf(text []byte) (*policies.Request, error) {
	if len(text) > mostRequest {
		return nil, fmt.Errorf("%d bytes: a request has at most %d", len(text), mostRequest)
	}

	p, err := policies.ParseRequest(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "policies: request: "))
	}
	return p, nil
}

func (s *Server) decide(r *http.Request, p *policies.Request) answer {
	if p.Route == "" {
		p.Route = s.cfg.Route(cleanPath(p.Path))
	}
	if p.Time.IsZero() {
		p.Time = time.Now()
	}

	d := s.limits.Decide(r.Context(), p)
	return answerOf(d, s.limits.FieldsOf(&d))
}

// refuse answers a question that cannot be read. Its author is a programmer, so it is worded for one.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		status = http.StatusRequestEntityTooLarge
		err = fmt.Errorf("the body has over %d bytes", mostBody)
	}

	// A name of a field that is shown may be as long as the request.
	message := fmt.Sprintf("%.*s", mostMessage, err)
	s.warned.say("a check cannot be read, so nothing is charged", "peer", r.RemoteAddr, "error", message)
	writeJSON(w, status, map[string]string{"error": message})
}

// writeJSON writes an answer. An error of writing means that the client has left.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
