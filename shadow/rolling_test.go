package shadow_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Half of the fleet has the next file, whose candidate is another algorithm. A record has room for two sides, so each
// old instance's check drops the new candidate's state, and the other way round. What the sides then answer is of
// different checks: the time is marked, and no evidence. Alone, both files' sides agree.
func TestRollingDeploymentIsNoEvidence(t *testing.T) {
	const authoritative = "{ algorithm: fixed_window_anchored, limit: 20, window: 1h }"
	client := redisAt(t, miniredis.RunT(t).Addr())
	instance := func(candidate, id string) *shadow.Harness {
		h := open(t, withSides(authoritative, candidate), shadow.Config{Redis: client, Instance: id})
		syncNow(t, h)
		return h
	}
	fleet := []*shadow.Harness{
		instance("{ algorithm: token_bucket, limit: 20, window: 1h, burst: 20 }", "old"),
		instance("{ algorithm: gcra, limit: 20, window: 1h, burst: 20 }", "new"),
	}

	const each = 600
	for i := range each {
		for _, h := range fleet {
			ask(t, h, fmt.Sprint("user-", i%10))
		}
	}

	for range 3 { // heard of, marked, written
		for _, h := range fleet {
			syncNow(t, h)
		}
	}

	a := assess(t, client)
	if len(a.Evidence.OtherFingerprint) == 0 {
		t.Fatalf("no instance of another file: %+v", a.Live)
	}
	if marked := slices.ContainsFunc(a.Evidence.History.Minutes, func(m evidence.Minute) bool {
		return m.Disturbed != nil && m.Disturbed.Marks > 0
	}); !marked || a.Gate.Divergence.Ratio != nil {
		t.Errorf("marked %t, divergence %v: %s", marked, a.Gate.Divergence.Ratio, a.Gate.Reason)
	}
}
