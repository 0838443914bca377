package main

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/policies"
)

// groupFile has a group whose second member is for writes only.
const groupFile = `
version: 1
name: checkout
policies:
  - name: hour
    group: { name: api, charge: all_or_nothing }
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 3, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
  - name: writes
    group: { name: api, charge: all_or_nothing }
    key: request.user
    when: request.method == "POST"
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

// A group is one policy to every command: its name, its keys, its counts. The member that leaves the least is named.
func TestCommandsOfAGroup(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	h := instanceOf(t, server, "a", groupFile)
	file := write(t, "checkout.yaml", []byte(groupFile))
	for _, method := range []string{"GET", "POST", "GET", "GET"} {
		h.Decide(t.Context(), &policies.Request{User: "ann", Method: method})
	}
	h.Decide(t.Context(), &policies.Request{User: "bob", Method: "POST"})
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	for args, want := range map[string]string{
		"key api ann --config " + file: "0 of 3 left by hour, as if unused in ",
		"key api bob --config " + file: "0 of 1 left by writes, as if unused in ",
		"key api ann":                  "in 24 h 4 requests compared, 3 allowed by the authoritative, of which the candidate denied 1",
		"top api":                      "1 key newly denied since the evidence began",
		"top api --denied":             "1 key denied by the authoritative since the evidence began",
		"history api":                  "new -> shadow",
	} {
		status, out, talk := shell(t, "", strings.Fields(args)...)
		if status != exitOK || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, want %q in\n%s%s", args, status, want, out, talk)
		}
	}

	// A member is no policy of the service.
	status, _, talk := shell(t, "", "top", "hour")
	if status != exitFailure || !strings.Contains(talk, `no policy "hour": it has api`) {
		t.Errorf("status %d: %s", status, talk)
	}
}
