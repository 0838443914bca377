package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// settler makes a cost final by the token of a check: a *shadow.Harness.
type settler interface {
	SettleToken(ctx context.Context, token string, cost int64) error
}

// settlement is the question of POST /v1/settle.
type settlement struct {
	Token string `json:"token"`
	Cost  *int64 `json:"cost"`
}

// settle answers POST /v1/settle: the final cost of a request that was checked, here or by another server of the same policies.
func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q, err := settlementOf(text)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	by, ok := s.cfg.Limiter.(settler)
	if !ok {
		s.refuse(w, r, errors.New("this server has no policies, so nothing settles"))
		return
	}

	switch err := by.SettleToken(r.Context(), q.Token, *q.Cost); {
	case err == nil:
		writeJSON(w, http.StatusOK, map[string]bool{"settled": true})
	case errors.Is(err, shadow.ErrToken):
		s.refuse(w, r, fmt.Errorf("token: want the settle of an answer to a check: %w", err))
	case errors.Is(err, shadow.ErrSettled):
		writeJSON(w, http.StatusConflict, map[string]string{"error": fmt.Sprintf("%.*s", mostMessage, err)})
	default:
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": fmt.Sprintf("%.*s", mostMessage, err)})
	}
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
