package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

const settledFile = `
version: 1
name: test
policies:
  - name: tokens
    key: request.ip
    cost: 40
    settle: '3'
    authoritative: { algorithm: fixed_window, limit: 100, window: 1h }
`

// A handler settles by what it alone knows, and the policy's own expression does not settle again.
func TestAHandlerSettles(t *testing.T) {
	for _, tt := range []struct {
		handler http.HandlerFunc
		left    string
	}{
		{func(http.ResponseWriter, *http.Request) {}, "57"}, // 100-3-40
		{func(_ http.ResponseWriter, r *http.Request) {
			if d, ok := shadow.FromContext(r.Context()); !ok || d.Settle(r.Context(), 10) != nil {
				t.Errorf("no decision to settle: %v", d)
			}
		}, "50"},
	} {
		h := httplimit.New(harness(t, settledFile), httplimit.Config{InContext: true, Fields: httplimit.FieldsLegacy})(tt.handler)
		for range 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if got := w.Header().Get("X-Ratelimit-Remaining"); got != "60" && got != tt.left {
				t.Errorf("%s left, want %s after 60", got, tt.left)
			}
		}
	}
}
