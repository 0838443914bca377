package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A policy that no instance has any more stays, says how to remove it, and is gone after that.
// One that a live instance has is not removed.
func TestForget(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC()
	state := stages.State{
		Version: stages.Version{Term: 1, Seq: 1}, Stage: stages.Shadow, Fingerprint: "e", From: "new",
		Since: at, StageAt: at, At: at,
	}
	spec := stages.Spec{Policy: "removed", Fingerprint: "e", Config: stages.Config{}.WithDefaults()}
	announce(t, inside.Stages(h), spec)
	if err := inside.Stages(h).Put(t.Context(), "removed", state, stages.Condition{}); err != nil {
		t.Fatal(err)
	}

	for _, step := range []struct {
		args   string
		status int
		want   string
	}{
		{"status removed", 0, "shadowlimit forget removed"},
		{"forget", 2, "needs a policy"},
		{"forget nothing", 1, "nothing is kept"},
		{"forget writes", 3, "not forgotten: still on a-"},
		{"forget removed", 0, "forgotten: removed, shadow, version 1.1, with 1 change"},
		{"forget removed", 1, "nothing is kept"},
		{"status removed", 1, `has no policy "removed"`},
		{"history writes", 0, "1.1"},
	} {
		status, out, talk := shell(t, "", strings.Fields(step.args)...)
		if status != step.status || !strings.Contains(out+talk, step.want) {
			t.Errorf("%s: status %d, want %d with %q:\n%s%s", step.args, status, step.status, step.want, out, talk)
		}
	}
	if _, out, _ := shell(t, "", "status", "writes"); strings.Contains(out, "forget") {
		t.Errorf("a policy with an instance: %s", out)
	}

	// An instance that is silent and has not left may come back: it is named.
	tell(t, inside.Stages(h), stages.Instance{ID: "gone", Policies: map[string]stages.Applied{"old": {}}})
	silence(t, server, "gone", time.Minute)
	announce(t, inside.Stages(h), stages.Spec{Policy: "old"})
	if status, out, talk := shell(t, "", "forget", "old"); status != 0 || !strings.Contains(talk, "from gone") {
		t.Errorf("status %d: %s%s", status, out, talk)
	}
	left := func(key string) bool { return strings.Contains(key, ":old}") || strings.Contains(key, ":removed}") }
	if keys := server.Keys(); slices.ContainsFunc(keys, left) {
		t.Errorf("left: %q", keys)
	}
}
