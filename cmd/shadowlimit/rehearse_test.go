package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

const (
	bundledLog = "../../internal/sample/elastic-2015.access.log.gz"
	// rehearsed has a policy that could not move by itself for days, and one beside it.
	rehearsed = `version: 1
name: shop
policies:
  - name: other
    key: request.path
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: fixed_window, limit: 0, window: 1m, id: none }
  - name: clients
    when: request.method == "GET"
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m, store: old }
    candidate: { algorithm: sliding_window_counter, limit: 20, window: 1m }
  - name: nothing
    when: request.path == "/none"
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: gcra, limit: 20, window: 1m }
promotion:
  mode: manual
  change_window: { days: [sun], from: "03:00", to: "03:01" }
`
)

// A policy of the user's goes all the way on the user's log.
func TestRehearsal(t *testing.T) {
	long(t)
	file := write(t, "policies.yaml", []byte(rehearsed))
	status, out, talk := shell(t, "", "demo", "--config", file, "--policy", "clients", "--soak", "30h", "--divergence", "5%", bundledLog)
	if status != exitOK {
		t.Fatalf("status %d: %s%s", status, out, talk)
	}

	rest := out
	for _, want := range []string{
		"A rehearsal of policy clients: 9,952 requests, over 3d", "=> shadow", "=> canary 1 %", "=> canary 10 %", "=> canary 50 %", "=> promoted",
		"the candidate denies every request", "=> rolled_back (hold)", "audit trail", "promoted -> rolled_back (hold)",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q after what came before it in\n%s", want, out)
		}
		rest = after
	}
}

func TestRehearsalRefuses(t *testing.T) {
	config := []string{"demo", "--config", "FILE"}
	ofPolicy := func(name string) []string { return append(config, "--policy", name, bundledLog) }

	for _, i := range []invocation{
		{name: "no config", args: []string{"demo", bundledLog}, status: exitUsage, talk: []string{"no log without --config"}},
		{name: "a flag of logs", args: []string{"demo", "--time-zone", "UTC"}, status: exitUsage, talk: []string{"without --config"}},
		{name: "a flag of the gate", args: []string{"demo", "--soak", "1h"}, status: exitUsage, talk: []string{"without --config"}},
		{name: "no log", args: config, status: exitUsage, talk: []string{"a rehearsal needs a log"}},
		{name: "a Redis", args: append(config, "--redis", "redis://x", "LOG"), status: exitUsage, talk: []string{"leave out --redis"}},
		{name: "several policies", args: append(config, bundledLog), status: exitUsage, talk: []string{"--policy: other, clients, nothing"}},
		{name: "no such policy", args: ofPolicy("client"), status: exitUsage, talk: []string{"--policy client: no such policy"}},
		{
			name: "no request", args: ofPolicy("nothing"), status: exitFailure,
			talk: []string{`request.path == "/none" is false for 10000`, "nothing to rehearse: policy nothing charges no request"},
		},

		{
			name: "a log that is too short", args: ofPolicy("clients"), status: exitNotMet,
			talk: []string{"the log is too short for a soak of 7d: --soak 3d would do"},
		},
		{
			name: "a candidate that fails", args: ofPolicy("other"), status: exitNotMet,
			talk: []string{"the gate does not pass on this log", "fail: newly_denied is 100 %"},
		},
	} {
		i.check(t, write(t, "policies.yaml", []byte(rehearsed)))
	}
}

// Of too many requests those of some keys are kept, and of each of these keys all.
func TestKeptRequestsHaveWholeKeys(t *testing.T) {
	kept, counts := &keptRequests{policy: "p", most: 100}, map[string]int{}
	for i := range 1000 {
		key := fmt.Sprint("key", i%37)
		kept.add("p", &policies.Request{IP: key}, key)
		kept.add("other", &policies.Request{IP: key}, key)
	}
	for _, r := range kept.requests() {
		counts[r.IP]++
	}

	if n := len(kept.list); n == 0 || n > 100 || kept.charged != 1000 {
		t.Errorf("%d requests are kept of %d", n, kept.charged)
	}
	for key, n := range counts {
		if n < 1000/37 {
			t.Errorf("of %s there are %d requests", key, n)
		}
	}
	if text := kept.String(); !strings.Contains(text, " of 1 in ") || !strings.Contains(text, "from 1,000 requests") {
		t.Error(text)
	}
}
