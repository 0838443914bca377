package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Bounds of one question. Policies are loaded if they are fast for texts of 8 KB.
const (
	mostBody    = 256 << 10
	mostRequest = 32 << 10
	mostBatch   = 100
	mostMessage = 300 // characters of an error
)

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

// writeJSON writes an answer. An error of writing means that the client has left.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// settler makes a cost final by the token of a check: a *shadow.Harness.
type settler interface {
	SettleToken(ctx context.Context, token string, cost int64) error
}

// settlement is the question of POST /v1/settle.
type settlement struct {
	Token string `json:"token"`
	Cost  *int64 `json:"cost"`
}

// settlementOf reads a question.
func settlementOf(text []byte) (q settlement, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&q); {
	case err != nil:
		return q, fmt.Errorf("want {\"token\": \"...\", \"cost\": 1}: %w", err)
	case q.Cost == nil || *q.Cost < 0:
		return q, errors.New("cost: want the final cost, a whole number of at least 0")
	}
	return q, nil
}
