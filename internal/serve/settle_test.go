package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// logins reserve a failed attempt each.
const logins = `
version: 1
name: logins
policies:
  - name: failures
    key: request.user
    settle: 'response.status == 401 ? 1 : 0'
    authoritative: { algorithm: fixed_window, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
`

// settleAs asks POST /v1/settle, and returns the status and the body.
func settleAs(s *Server, body string) (int, string) {
	w := ask(s, httptest.NewRequest(http.MethodPost, Settle, strings.NewReader(body)), here)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// A service settles by the token of its check, once.
func TestSettle(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, logins, still) })
	login := func() (a answer) {
		_, body := check(s, `{"user":"ann"}`)
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for n := range 5 {
		a := login()
		if !a.Allowed || a.Settle == "" {
			t.Fatalf("login %d: %+v", n+1, a)
		}
		question := fmt.Sprintf(`{"token":%q,"cost":0}`, a.Settle)
		if status, body := settleAs(s, question); status != http.StatusOK {
			t.Fatal(status, body)
		}
		if status, _ := settleAs(s, question); status != http.StatusConflict {
			t.Errorf("a second time: %d, want 409", status)
		}
	}
	login()
	login()
	if a := login(); a.Allowed || a.Settle != "" {
		t.Errorf("two of two are open: %+v", a)
	}
}

func TestSettleRefuses(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, logins, still) })
	for _, body := range []string{"", "[]", `{}`, `{"token":"","cost":1}`, `{"token":"abc","cost":1}`, `{"token":"abc"}`, `{"token":"a","cost":-1}`,
		`{"token":"` + strings.Repeat("a.", 200) + `","cost":1}`, `{"tokn":"a","cost":1}`} {
		if status, got := settleAs(s, body); status != http.StatusBadRequest {
			t.Errorf("%.40s: %d %s, want 400", body, status, got)
		}
	}
}
