package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A hundred policies are a screen, and as many questions to Redis as one policy.
func TestStatusOfAHundredPolicies(t *testing.T) {
	t.Parallel()
	const all, lines = 100, 24
	server := privateServer(t)
	var file strings.Builder
	name := namespace()
	fmt.Fprintf(&file, "version: 1\nname: %s\npolicies:\n", name)
	for n := range all {
		fmt.Fprintf(&file, `
  - name: api-%02d
    labels: { team: team-%d }
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 10, window: 1m }
    candidate: { algorithm: gcra, limit: 10, window: 1m }
`, n, n%4)
	}
	set, err := policies.Load("fleet.yaml", []byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server})
	defer client.Close()
	h, err := shadow.New(shadow.Config{
		Policies: set, Redis: client, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())

	addr, asked := countingProxy(t, server)
	program, err := command()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (text string, questions int64) {
		t.Helper()
		before := asked.Load()
		cmd := exec.Command(program, append(args, "--redis", "redis://"+addr, "--name", name)...)
		var talk bytes.Buffer
		cmd.Stderr = &talk
		out, err := cmd.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out) + talk.String(), asked.Load() - before
	}
	numbered := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "api-") {
				n++
			}
		}
		return n
	}

	names := make([]string, all)
	for n := range names {
		names[n] = fmt.Sprintf("api-%02d", n)
	}
	store, late := stages.NewRedisStore(client, name), time.After(2*time.Minute)
	for tick, led := time.Tick(100*time.Millisecond), false; !led; {
		published, err := store.Published(t.Context(), names, false)
		if err != nil {
			t.Fatal(err)
		}
		led = !slices.ContainsFunc(published, func(p stages.Published) bool { return p.Leader == "" })
		select {
		case <-tick:
		case <-late:
			t.Fatal("no leader has published all policies")
		}
	}

	if text, _ := run("promote", "api-03", "api-07", "--to", "10%", "--force", "--reason", "a drill"); numbered(text) != 2 {
		t.Fatal(text)
	}
	if text, _ := run("rollback", "api-03", "--reason", "a drill"); numbered(text) != 1 {
		t.Fatal(text)
	}

	// A connection is opened with two questions, and a script that Redis does not know is sent again.
	const most = 20
	for _, tt := range []struct {
		args        string
		least, most int
		says        []string
	}{
		{"status", 1, 20, []string{"\napi-03 ", "99 need nobody: 98 shadow wait, 1 canary 10 % wait"}},
		{"status *", all, all, []string{"\napi-99 "}},
		{"status api-1*", 10, 10, []string{"\napi-10 "}},
		{"status --label team=team-3", 25, 25, []string{"\napi-03 ", "\napi-99 "}},
	} {
		text, questions := run(strings.Fields(tt.args)...)
		if n := numbered(text); n < tt.least || n > tt.most || tt.args == "status" && strings.Count(text, "\n") > lines {
			t.Errorf("%s: %d policies in\n%s", tt.args, n, text)
		}
		for _, says := range tt.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: no %q in\n%s", tt.args, says, text)
			}
		}
		if questions > most {
			t.Errorf("%s asks Redis %d times, at most %d are meant", tt.args, questions, most)
		}
	}
	// Each that is not moved has its reason, in a line or two.
	began := time.Now()
	text, _ := run("promote", "api-*", "--joint", "5%", "--reason", "a calm week")
	if took := time.Since(began); took > 20*time.Second || !strings.Contains(text, "promote: not for 100 of 100 policies\n") ||
		numbered(text) != all || strings.Count(text, "\n") > 3*all {
		t.Errorf("after %s:\n%s", took, text)
	}

	var full struct{ Policies []any }
	if text, _ := run("status", "-o", "json"); json.Unmarshal([]byte(text), &full) != nil || len(full.Policies) != all {
		t.Errorf("%d policies in JSON", len(full.Policies))
	}
}

// countingProxy stands before a server, and counts what comes to it in one piece.
func countingProxy(t *testing.T, server string) (addr string, asked *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	asked = new(atomic.Int64)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			redis, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, redis)
			}()
			go func() {
				defer redis.Close()
				for piece := make([]byte, 1<<20); ; {
					n, err := client.Read(piece)
					if err != nil {
						return
					}
					asked.Add(1)
					if _, err := redis.Write(piece[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), asked
}
