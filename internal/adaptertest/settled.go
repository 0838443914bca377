package adaptertest

import (
	"strings"
	"testing"
)

// settling charges four of ten, and one in the end, or nothing where the service has failed. Success is 0 in gRPC.
const settling = `
version: 1
name: conformance
policies:
  - name: per-tenant
    when: request.route in ROUTES
    key: request.headers[?"x-tenant"].orValue("none")
    cost: 4
    settle: 'response.status in [0, 200] ? 1 : 0'
    authoritative: { algorithm: fixed_window_anchored, limit: 10, window: 1h }
`

// What a handler has answered is the final cost of its request. One that panics has answered 500.
func testSettled(t *testing.T, f Framework) {
	c := f.Start(t, newService(t, f, settling))
	for _, tt := range []struct {
		route string
		left  []string
	}{
		{"item", []string{"r=6", "r=5", "r=4"}},
		{"fail", []string{"r=6", "r=6", "r=6"}},
		{"panic", []string{"r=6", "r=6"}},
	} {
		for i, want := range tt.left {
			route := tt.route
			if i == len(tt.left)-1 {
				route = "item" // the answer to a panic has no fields in some frameworks
			}
			a := send(t, c, route, tenant("of "+tt.route))
			if got := fields(a); route == "item" && !strings.Contains(got, want+";") {
				t.Errorf("request %d of %s: %q, want %s", i, tt.route, got, want)
			}
		}
	}
}
