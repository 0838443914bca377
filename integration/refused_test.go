package integration

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const twoPoliciesFile = `
version: 1
name: svc
policies:
  - name: a
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 3, window: 1h }
    candidate: { algorithm: gcra, limit: 3, window: 1h }
  - name: b
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 5, window: 1h }
    candidate: { algorithm: gcra, limit: 5, window: 1h }
`

// A Redis that refuses every connection, as after a change of its password, is a Redis that
// does not answer: the service starts, goes by on_store_failure, and says why.
func TestRefusedConnections(t *testing.T) {
	addr := privateServer(t, "--requirepass", "new")
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}, Password: "old"}, time.Second))
	t.Cleanup(func() { client.Close() })
	set, err := policies.Load("two.yaml", []byte(twoPoliciesFile))
	if err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	h, err := shadow.New(shadow.Config{Policies: set, Redis: client, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for range 10 {
		d := h.Decide(t.Context(), &policies.Request{IP: "1.2.3.4"})
		if !d.Fallback {
			t.Errorf("not a fallback: %+v", d)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d requests are allowed by the limiter in the process, want 3", allowed)
	}

	_, states := inside.Stages(h).States(t.Context(), []string{"a"})
	said := errors.Join(states, h.Sync(t.Context()), h.Close(context.Background()))
	if states == nil || said == nil || !strings.Contains(log.String(), "WRONGPASS") || strings.Contains(log.String(), "unexpected type") {
		t.Errorf("%v\n%s", said, log.String())
	}
}
