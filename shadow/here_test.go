package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// refusal is the answer of a Redis that refuses a command.
type refusal string

func (r refusal) Error() string { return string(r) }

func (refusal) RedisError() {}

// readOnly is a hook of a client whose Redis answers reads and refuses writes, while it is on.
type readOnly struct {
	on   atomic.Bool
	err  refusal
	only []string // the refused commands; nil: all writes
}

// reads are the commands without a write that this library sends, beside scripts.
var reads = []string{"get", "time", "ping", "pfcount", "hello", "client"}

// isRead reports whether a command reads alone: also the script of package redisread, and a heartbeat of nobody.
func isRead(cmd redis.Cmder) bool {
	name, args := strings.ToLower(cmd.Name()), cmd.Args()
	if !strings.HasPrefix(name, "eval") {
		return slices.Contains(reads, name)
	}
	behind := args[3+args[2].(int)] // the keys
	return behind == 100_000 || behind == "" && strings.HasSuffix(args[3].(string), ":heard")
}

func (r *readOnly) refuses(cmd redis.Cmder) bool {
	if r.only != nil {
		return r.on.Load() && slices.Contains(r.only, strings.ToLower(cmd.Name()))
	}
	return r.on.Load() && !isRead(cmd)
}

// DialHook implements redis.Hook.
func (r *readOnly) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (r *readOnly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.refuses(cmd) {
			cmd.SetErr(r.err)
			return r.err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (r *readOnly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !slices.ContainsFunc(cmds, r.refuses) {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(r.err)
		}
		return r.err
	}
}

const denies = "key: request.user\n    on_store_failure: deny"

// A Redis that answers reads and refuses writes lets the report of the fleet look healthy, while every request is denied. The
// instance says so, beside that report.
func TestRefusedWritesAreOnThePage(t *testing.T) {
	for err, reason := range map[refusal]string{
		"OOM command not allowed when used memory > 'maxmemory'.": "OOM: ",
		"READONLY You can't write against a read only replica.":   "READONLY: ",
	} {
		client := redisAt(t, miniredis.RunT(t).Addr())
		refuse := &readOnly{err: err}
		client.AddHook(refuse)
		h := open(t, strings.Replace(file, "key: request.user", denies, 1), shadow.Config{Redis: client})
		syncNow(t, h)
		if r := lookStale(t, h.StatusPage()); r.Here.Instance == "" || r.Here.WritesRefused || r.Here.Policies[0].StoreUnreachable != "" {
			t.Errorf("before: %+v", r.Here)
		}

		refuse.on.Store(true)
		if d := ask(t, h, "acme"); d.Allowed {
			t.Fatalf("%+v", d)
		}
		_ = h.Sync(t.Context()) // it fails: its heartbeat is refused

		r := lookStale(t, h.StatusPage())
		away := r.Here.Policies[0].StoreUnreachable
		if r.Error != "" || !r.Here.WritesRefused || !strings.HasPrefix(r.Here.Trouble, reason) || !strings.Contains(away, reason) ||
			!strings.Contains(away, "deny: every request is denied") {
			t.Errorf("%q, %+v", r.Error, r.Here)
		}
		w := httptest.NewRecorder()
		h.StatusPage().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
		before, _, _ := strings.Cut(w.Body.String(), `class="policy"`)
		if !strings.Contains(before, "REFUSES WRITES") || !strings.Contains(before, "request is denied") {
			t.Errorf("not above the report of the fleet: %s", before)
		}
	}
}

// An instance sends heartbeats again before its limiter has tried the store again: the heartbeat says that requests still fall back.
func TestHeartbeatSaysThatTheOwnStoreIsAway(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	refuse := &readOnly{err: "READONLY You can't write against a read only replica.", only: []string{"evalsha", "eval"}}
	client.AddHook(refuse)
	h := open(t, strings.Replace(file, "key: request.user", denies, 1), shadow.Config{Redis: client})
	syncNow(t, h)

	says := func() (away bool) {
		syncNow(t, h)
		f, err := inside.Stages(h).Fleet(t.Context())
		list := f.Instances
		if err != nil || len(list) != 1 || len(list[0].Failing) > 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].OwnStoreUnreachable
	}
	if says() {
		t.Error("away before the outage")
	}

	refuse.on.Store(true)
	for range 5 { // failures in a row open the breaker
		ask(t, h, "acme")
	}
	refuse.on.Store(false) // Redis takes scripts again, and no request has tried one
	if !says() {
		t.Error("the breaker is open, and the heartbeat does not say so")
	}
}

// An instance of another fingerprint shows the fleet's stage with the fleet's sides, and says that it follows neither.
func TestPageOfAnotherFingerprint(t *testing.T) {
	server := miniredis.RunT(t)
	fleet := open(t, file, shadow.Config{Redis: redisAt(t, server.Addr()), Instance: "fleet"})
	stored := fleet.Policies().Policies[0].Fingerprint()
	path := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(file, "limit: 1", "limit: 77", 1)), 0o600); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	client := redisAt(t, server.Addr())
	h, err := shadow.New(shadow.Config{
		File: path, Redis: client, Instance: "other", StateDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	advance(t, stages.NewRedisStore(client, name), policy, stages.Step{Stage: stages.Promoted})
	syncNow(t, fleet)
	syncNow(t, h)
	own := h.Policies().Policies[0].Fingerprint()

	r := lookStale(t, h.StatusPage())
	if p, e := r.Policies[0], r.Here.Policies[0]; p.Candidate != "gcra:1/1h" || e.Enforced != "authoritative" || e.Candidate != "gcra:77/1h" ||
		e.Fingerprint != own || e.Stored != stored || r.Here.File != path {
		t.Errorf("fleet %+v\nhere %+v", p, r.Here)
	}
	w := httptest.NewRecorder()
	h.StatusPage().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	above, _, _ := strings.Cut(w.Body.String(), `class="policy"`)
	for _, want := range []string{path, "policy " + policy, own, stored, "authoritative fixed_window_anchored:2/1h"} {
		if !strings.Contains(above, want) {
			t.Errorf("no %q in %s", want, above)
		}
	}

	if err := h.Close(t.Context()); err != nil { // now the log is complete
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "has another policy file") || !strings.Contains(log.String(), "file="+path) {
		t.Errorf("the log does not name the file: %s", log.String())
	}
}

// The log says whether the store or the limiter of a side failed: an engineer on call looks there first.
func TestLogSaysWhatFailed(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	fails := shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		return algorithms.Decision{}, errors.New("of its own")
	})
	set, err := policies.Load("sides.yaml", []byte(withSides("{limiter: new}", "{algorithm: gcra, limit: 2, window: 1h}")))
	if err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	h, err := shadow.New(shadow.Config{
		Policies: set, Redis: client, Limiters: tomorrows(fails), StateDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	for range 5 { // failures in a row open the breaker
		ask(t, h, "acme")
		_ = h.Sync(t.Context()) // the candidate follows, and the fleet's work fails
	}
	_ = h.Close(t.Context()) // now the log is complete; the store is away

	for _, want := range []string{
		`a side has no answer: its limiter failed; see shadowlimit_decisions_total and shadowlimit_fallback_decisions_total" ` +
			"policy=per-user side=authoritative",
		`a side has no answer: its store failed; see shadowlimit_decisions_total and shadowlimit_fallback_decisions_total" ` +
			"policy=per-user side=candidate",
		"store=(own)",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, &log)
		}
	}
}
