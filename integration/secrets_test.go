package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A server that knows neither HELLO nor AUTH, as behind some proxies, answers with the password.
// Neither the library's log and errors nor a command shows it.
func TestNoPasswordInErrorsOfAServerWithoutAuth(t *testing.T) {
	const password = "s3cret"
	addr := privateServer(t, "--rename-command", "AUTH", "", "--rename-command", "HELLO", "")
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}, Password: password}, 0))
	t.Cleanup(func() { client.Close() })
	if err := client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), password) {
		t.Fatalf("the client's own error has no password, so this test shows nothing: %v", err)
	}

	var log bytes.Buffer
	limit := algorithms.Limit{Requests: 10, Window: time.Minute}
	p, err := shadow.NewPair(shadow.PairConfig{
		Redis: client, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	if err == nil {
		err = p.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Allow(t.Context(), "client", 1)
	_, assessed := inside.Assess(t.Context(), p)
	_, stored := inside.Stages(p).States(t.Context(), []string{"default"})
	said := errors.Join(p.Sync(t.Context()), assessed, stored, p.Close(context.Background()))
	if said == nil || log.Len() == 0 || strings.Contains(fmt.Sprint(said, log.String()), password) {
		t.Errorf("errors %v\nlog %s", said, log.String())
	}

	s := server{addr: ":" + password + "@" + addr}
	for _, args := range []string{"doctor", "status", "rollback p --reason x"} {
		if status, out := shell(t, s, "svc", strings.Fields(args)...); status == 0 || strings.Contains(out, password) {
			t.Errorf("%s: status %d: %s", args, status, out)
		}
	}
}
