package httplimit_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// What the handler answers is the cost: its status, header, size and time.
func TestMiddlewareSettles(t *testing.T) {
	nothing := func(http.ResponseWriter, *http.Request) {}
	for settle, handler := range map[string]http.HandlerFunc{
		"response.status == 401 ? 7 : 50":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"response.status == 200 ? 7 : 50":    nothing,
		"response.size":                      func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("abc")); io.WriteString(w, "defg") },
		"response.size + 0":                  func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("abcdefg")) },
		`int(response.headers["x-units"])`:   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "7") },
		"response.seconds >= 0.0 ? 7 : 50":   nothing,
		"response.status == 101 ? 7 : 50":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) },
		"response.status == 500 ? 7 : 50":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		`request.method == "GET" ? 7 : 50`:   nothing,
		`int(request.headers["x-a"])`:        nothing,
		`int(response.headers["x-missing"])`: nothing, // fails, and the cost stays
	} {
		set, err := policies.Load("p.yaml", []byte("version: 1\nname: test\npolicies:\n  - name: units\n    key: '\"all\"'\n    cost: 100\n"+
			"    settle: '"+settle+"'\n    authoritative: { algorithm: fixed_window, limit: 1000, window: 1d }\n"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := shadow.New(shadow.Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}

		func() {
			defer func() { _ = recover() }()
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("X-A", "7")
			httplimit.New(h, httplimit.Config{})(handler).ServeHTTP(httptest.NewRecorder(), r)
		}()
		want := int64(1000 - 7 - 100)
		if strings.Contains(settle, "missing") {
			want = 1000 - 100 - 100
		}
		if d := h.Decide(t.Context(), &policies.Request{}); d.Remaining != want {
			t.Errorf("%s: the next request of 100 leaves %d, want %d", settle, d.Remaining, want)
		}
		h.Close(t.Context())
	}
}
