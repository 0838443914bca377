package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/policies"
)

const stateFile = `
version: 1
name: checkout
policies:
  - name: writes
    key: [request.user, request.route]
    authoritative: { algorithm: fixed_window_anchored, limit: 4, window: 1h }
    candidate: { algorithm: gcra, limit: 2, window: 1h }
    promotion: { protect: ['a\|b|/r', 'acme|/r'] }
  - name: logged
    key: request.user
    authoritative: { algorithm: sliding_window_log, limit: 5, window: 1h }
    candidate: { algorithm: leaky_bucket, limit: 5, window: 1h, burst: 3 }
  - name: tiers
    key: request.user
    authoritative: { algorithm: gcra, limit: 'request.route == "/big" ? 9 : 3', window: 1h }
    candidate: { algorithm: token_bucket, limit: 3, window: 1h }
  - name: plans
    key: request.user
    authoritative: { algorithm: gcra, limit: 'request.user == "acme" ? 9 : 3', window: 1h }
    candidate: { algorithm: gcra, limit: 'request.user == "acme" ? 8 : 3', window: 1h, id: next }
`

// The command shows what the next request of the key finds, and its looks change nothing, whatever the algorithm.
func TestKeyShowsWhatBothSidesHold(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	h := instanceOf(t, server, "a", stateFile)
	file := write(t, "checkout.yaml", []byte(stateFile))
	request := &policies.Request{User: "a|b", Route: "/r"}

	for used := int64(0); used <= 5; used++ {
		before := records(server)
		got := keyJSON(t, "key", "writes", `a\|b|/r`, "--config", file, "-o", "json")
		a, c := got.State.Authoritative, got.State.Candidate
		if got.State.Record != (used > 0) || *a.Limit != 4 || *a.Remaining != max(0, 4-used) || *c.Remaining != max(0, 2-used) {
			t.Errorf("after %d requests: %+v and %+v of %+v", used, a, c, got.State)
		}
		if unused := *a.ResetAfterUS == 0 && *c.ResetAfterUS == 0; unused != (used == 0) {
			t.Errorf("after %d requests: reset after %d and %d us", used, *a.ResetAfterUS, *c.ResetAfterUS)
		}

		logged := keyJSON(t, "key", "logged", "a|b", "--config", file, "-o", "json").State
		if *logged.Authoritative.Remaining != 5-used || *logged.Candidate.Remaining != max(0, 3-used) {
			t.Errorf("after %d requests: the log has %+v and the bucket %+v", used, logged.Authoritative, logged.Candidate)
		}
		if after := records(server); after != before {
			t.Errorf("after %d requests the look has changed\n%s to\n%s", used, before, after)
		}
		h.Decide(t.Context(), request)
	}

	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := keyJSON(t, "key", "writes", `a\|b|/r`, "-o", "json").Differences
	if d.Counted == nil || *d.Counted != (keyCounts{6, 4, 2}) || d.NewlyDenied == nil || d.NewlyDenied.Count != 2 || d.NewlyAllowed != nil {
		t.Errorf("differences %+v, want 6 requests, 4 allowed, 2 lost and listed", d)
	}
}

// records are all records of keys, and their logs. The ledger and the heartbeats change by themselves.
func records(server *miniredis.Miniredis) string {
	var b strings.Builder
	for _, key := range server.Keys() {
		if !strings.HasPrefix(key, "shadowlimit1:{checkout:writes:") && !strings.HasPrefix(key, "shadowlimit1:{checkout:logged:") {
			continue
		}
		text, err := server.Get(key)
		set, _ := server.SortedSet(key)
		fmt.Fprintln(&b, key, text, err, set)
	}
	return b.String()
}

func keyJSON(t *testing.T, args ...string) (r keyReport) {
	t.Helper()
	status, out, talk := shell(t, "", args...)
	if err := json.Unmarshal([]byte(out), &r); status != exitOK || err != nil {
		t.Fatalf("%q: status %d, %v\n%s%s", args, status, err, out, talk)
	}
	return r
}

func TestKeyStateText(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	h := instanceOf(t, server, "a", stateFile)
	file := write(t, "checkout.yaml", []byte(stateFile))
	elsewhere := strings.NewReplacer("key: [request.user, request.route]", "key: request.user",
		"fixed_window_anchored, limit", "fixed_window, store: other, limit",
		"algorithm: gcra, limit: 2, window: 1h", "limiter: mine").Replace(stateFile)
	other := write(t, "other.yaml", []byte(elsewhere))
	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "acme", Route: "/r"})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	for args, want := range map[string][]string{
		"key writes acme|/r --config " + file: {"state     authoritative  fixed_window_anchored:4/1h: 1 of 4 left, "},
		"key writes acme|/r": {
			"state     not known ", "--config FILE\n", "lately ", " 3 requests ", " 3 allowed ", "authoritative", "candidate denied 1\n",
			"newly denied 1 ", "at most 0 too high\n",
		},
		"key writes none|/r --config " + file: {"candidate      gcra:2/1h: 2 of 2 left, ", "no record", "secret"},
		"key writes none|/r":                  {"lately    none known"},
		"key plans acme --config " + file:     {"authoritative", ": 6 of 9 left", "candidate", ": 5 of 8 left"},
		"key tiers acme --config " + file:     {"authoritative", "limit depends on more of a request than the key", "candidate      token_bucket:3/1h: 0 of 3 left"},
		"key writes acme --config " + other:   {"in other: ", "candidate      mine (custom limiter, revision \"1\")"},
	} {
		status, out, talk := shell(t, "", strings.Fields(args)...)
		if missing := firstMissing(out, want); status != exitOK || missing != "" {
			t.Errorf("%s: status %d, no %q in\n%s%s", args, status, missing, out, talk)
		}
	}
}

// With a secret no list names the key: the command does not say that there are no differences.
func TestKeyOfASecretServiceIsNotSaidToAgree(t *testing.T) {
	var b strings.Builder
	d := keyDifferences{Masked: true}
	d.write(&b)
	if missing := firstMissing(b.String(), []string{"secret", "HMAC"}); missing != "" {
		t.Errorf("no %q in %q", missing, b.String())
	}
}
