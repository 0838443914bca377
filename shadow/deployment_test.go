package shadow_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// While the next migration is deployed, instances with the file before stay with the
// candidate that they have completed: their authoritative is cold.
func TestCompletedStaysThroughTheNextDeployment(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	instance := func(sides string) *shadow.Harness {
		set, err := policies.Load("f.yaml", []byte("version: 1\nname: test\npolicies:\n  - name: per-user\n    key: request.user\n"+sides))
		if err != nil {
			t.Fatal(err)
		}

		h, err := shadow.New(shadow.Config{Policies: set, Redis: client, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { h.Close(context.Background()) })
		return h
	}

	allowed := func(h *shadow.Harness) (n int) {
		for range 5 {
			if ask(t, h, "alice").Allowed {
				n++
			}
		}
		return n
	}

	before := instance("    authoritative: { algorithm: fixed_window_anchored, limit: 100, window: 1h }\n" +
		"    candidate: { algorithm: gcra, limit: 2, window: 1h }\n")
	_, err := stages.Advance(t.Context(), inside.Stages(before), policy, stages.Step{Stage: stages.Promoted}, stages.Order{})
	if err == nil {
		_, err = stages.Complete(t.Context(), inside.Stages(before), policy, stages.Order{})
	}
	if err != nil {
		t.Fatal(err)
	}

	syncNow(t, before)
	if n := allowed(before); n != 2 {
		t.Errorf("completed, %d of 5 allowed, want the candidate's 2", n)
	}

	next := instance("    authoritative: { algorithm: gcra, limit: 2, window: 1h }\n" +
		"    candidate: { algorithm: token_bucket, limit: 3, window: 1h }\n")
	for _, h := range []*shadow.Harness{next, before} {
		syncNow(t, h)
		if n := allowed(h); n != 0 {
			t.Errorf("during the next deployment %d more of 5 allowed: the budget was spent", n)
		}
	}
}
