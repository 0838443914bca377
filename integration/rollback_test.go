package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// The authoritative has a Redis of its own, which is killed while the candidate is promoted. A rollback and the red button's handler make no
// outage of that: with deny both refuse and say what to repair, and do it once the store answers again. With another rule both
// do it at once, and the rollback says what clients get.
func TestRollbackDecidesWhatIsSafe(t *testing.T) {
	built(t)
	for _, tt := range []struct{ rule, effect string }{
		{stages.FailDeny, ""}, {stages.FailAllow, "no request there is limited"}, {stages.FailLocal, "its share of the limit"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			name, own := namespace(), server{addr: privateServer(t)}
			east, stop, err := startRedis()
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			open := func(addr string) redis.UniversalClient {
				client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, time.Second))
				t.Cleanup(func() { client.Close() })
				return client
			}
			text := strings.Replace(fmt.Sprintf(serviceFile, name), "    key:", "    on_store_failure: "+tt.rule+"\n    key:", 1)
			text = strings.Replace(text, "{ algorithm: fixed", "{ store: east, algorithm: fixed", 1)
			set, err := policies.Load("service.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			h := harnessOf(t, shadow.Config{Policies: set, Redis: open(own.addr), Stores: map[string]redis.UniversalClient{"east": open(east)}})
			roll := func() (status int, out string) {
				status, out = shell(t, own, name, "rollback", "per-user", "--reason", "drill")
				lines := strings.Split(strings.TrimSpace(out), "\n")
				for _, line := range lines {
					if utf8.RuneCountInString(line) > 80 {
						t.Errorf("%q is longer than a terminal is wide", line)
					}
				}
				if len(lines) > 6 || !strings.Contains(out, "\nnext: shadowlimit ") {
					t.Errorf("%d lines:\n%s", len(lines), out)
				}
				t.Log(out)
				return status, strings.Join(strings.Fields(out), " ")
			}
			press := func() int {
				w := httptest.NewRecorder()
				h.RedButtonHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
				t.Log(w.Code, w.Body)
				return w.Code
			}
			stage := func() string {
				h.Decide(t.Context(), &policies.Request{User: "alice"})
				if err := h.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				_, out := shell(t, own, name, "status")
				return out
			}

			if status, out := shell(t, own, name, "promote", "per-user", "--to", "promoted", "--force", "--reason", "drill"); status != 0 {
				t.Fatal(out)
			}
			stop()
			await(t, "the instance says that east is away", func() bool {
				stage()
				_, out := shell(t, own, name, "status", "per-user")
				return strings.Contains(out, "STORE UNREACHABLE")
			})

			if tt.rule != stages.FailDeny {
				if status, out := roll(); status != 0 || !strings.Contains(out, "1/1 applied") || !strings.Contains(out, tt.effect) {
					t.Errorf("status %d", status)
				}
				if code := press(); code != http.StatusOK {
					t.Errorf("the button answers %d", code)
				}
				return
			}
			status, out := roll()
			if status != 3 || !strings.Contains(out, "store east") || !strings.Contains(out, "would be denied; repair that store first") {
				t.Errorf("status %d", status)
			}
			if code, now := press(), stage(); code != http.StatusConflict || !strings.Contains(now, "promoted") {
				t.Errorf("the button answers %d\n%s", code, now)
			}

			_, port, _ := strings.Cut(east, ":")
			_, again, err := startRedis("--port", port)
			if err != nil {
				t.Fatal(err)
			}
			defer again()
			await(t, "the instance asks east again", func() bool {
				stage()
				_, out := shell(t, own, name, "status", "per-user")
				return !strings.Contains(out, "STORE UNREACHABLE")
			})
			if status, out := roll(); status != 0 || !strings.Contains(out, "1/1 applied") {
				t.Errorf("status %d", status)
			}
		})
	}
}
