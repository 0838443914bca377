package integration

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// logins are the service of the recipe failed-logins, on two instances.
const logins = `
version: 1
name: NAME
policies:
  - name: failures
    key: request.query["user"]
    settle: 'response.status == 401 ? 1 : 0'
    authoritative: { algorithm: fixed_window_anchored, limit: 10, window: 15m }
    candidate: { algorithm: sliding_window_log, limit: 10, window: 15m }
    on_store_failure: deny
    on_error: deny
`

// TestLoginService holds that only failed logins count, on both sides, on every server, whichever instance answers.
func TestLoginService(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		set, err := policies.Load("logins.yaml", []byte(strings.Replace(logins, "NAME", newName(), 1)))
		if err != nil {
			t.Fatal(err)
		}
		var differ sync.Map
		var instances [2]*shadow.Harness
		var fronts [2]http.Handler
		for i := range instances {
			client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, longBudget))
			defer client.Close()
			h, err := shadow.New(shadow.Config{Policies: set, Redis: client, Logger: slog.New(slog.DiscardHandler), Observer: func(c shadow.Comparison) {
				if c.Differs() {
					differ.Store(c.Key, c.Outcome)
				}
			}})
			if err == nil {
				err = h.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(context.Background())
			instances[i] = h
			fronts[i] = httplimit.New(h, httplimit.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("password") != "right" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
		}
		attempt := func(n int, user, password string) int {
			w := httptest.NewRecorder()
			query := url.Values{"user": {user}, "password": {password}}.Encode()
			fronts[n%2].ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login?"+query, http.NoBody))
			if err := instances[n%2].Sync(t.Context()); err != nil { // the settlement is made behind the response
				t.Fatal(err)
			}
			return w.Code
		}

		for n := range 40 {
			if got := attempt(n, "ann", "right"); got != http.StatusOK {
				t.Fatalf("right password %d: %d", n+1, got)
			}
		}
		for n := range 14 {
			want := http.StatusUnauthorized
			if n >= 10 {
				want = http.StatusTooManyRequests
			}
			if got := attempt(n, "ann", "wrong"); got != want {
				t.Errorf("wrong password %d: %d, want %d", n+1, got, want)
			}
		}
		if got := attempt(0, "bob", "right"); got != http.StatusOK {
			t.Errorf("another user: %d", got)
		}
		differ.Range(func(key, outcome any) bool {
			t.Errorf("%v: the sides differ: %v", key, outcome)
			return true
		})
	})
}
