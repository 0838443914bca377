package shadow_test

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A client chooses the deadline of a gRPC call. A limiter in memory counts a request whose time is over, or such requests
// would have no limit.
func TestRequestsWhoseTimeIsOverAreLimited(t *testing.T) {
	h := open(t, `
version: 1
name: test
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 3, window: 24h }
    candidate: { algorithm: gcra, limit: 3, window: 24h }
`, shadow.Config{})

	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	allowed := 0
	for range 10 {
		if d := h.Decide(over, &policies.Request{User: "a"}); d.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d of 10 requests without time are allowed, want 3", allowed)
	}
}
