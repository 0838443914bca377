package shadow_test

import (
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// Half of the fleet has the next file, whose candidate is another algorithm. A record has room for two sides, so each
// old instance's charge drops the new candidate's state, and the other way round. What the sides then answer is of
// different charges: it must be blind, and neither a difference nor a strike. Alone, both files' sides agree.
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

	for n, h := range fleet {
		for _, outcome := range []string{"newly_denied", "newly_allowed", "candidate_error"} {
			if got := comparisons(t, h, outcome); got != 0 {
				t.Errorf("instance %d has %g comparisons %s, want none", n, got, outcome)
			}
		}
		if got := comparisons(t, h, "blind"); got < each/2 {
			t.Errorf("instance %d has %g blind comparisons of %d, want most", n, got, each)
		}
	}
}
