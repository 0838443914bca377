package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// promoteAll promotes the policy of an instance, which applies it.
func promoteAll(t *testing.T, h *shadow.Harness) {
	t.Helper()
	full := stages.Step{Stage: stages.Promoted}
	err := h.Sync(t.Context())
	if err == nil {
		_, err = stages.Advance(t.Context(), inside.Stages(h), "writes", full, stages.Order{})
	}
	if err = errors.Join(err, h.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// atNight reports whether a rollback has said what it says in six lines of a terminal's width.
func atNight(text string) bool {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return len(lines) <= 6 && !slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > 80 })
}

// flat is a text without the breaks of its lines.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// A server that answers and refuses writes is named as such, with what to do.
func TestRollbackToAReplica(t *testing.T) {
	server, h := service(t)
	promoteAll(t, h)
	server.SetError("READONLY You can't write against a read only replica.")

	status, _, talk := shell(t, "", "rollback", "writes", "--reason", "429s")
	if missing := firstMissing(flat(talk), []string{"NOT STORED", "primary", "red button"}); status != exitFailure || missing != "" || !atNight(talk) {
		t.Errorf("status %d, no %q: %s", status, missing, talk)
	}
}

// A state that cannot be read is taken for a rollback by all instances. A rollback stores that in its place.
func TestRollbackOfAnUnreadableState(t *testing.T) {
	server, h := service(t)
	promoteAll(t, h)
	server.HSet("shadowlimit1:{checkout}:states", "writes", "garbage")

	code, out, talk := shell(t, "", "rollback", "writes", "--reason", "x")
	stored := server.HGet("shadowlimit1:{checkout}:states", "writes")
	if code != 0 || !strings.Contains(stored, `"Stage":"rolled_back"`) {
		t.Errorf("status %d, stored %q\n%s%s", code, stored, out, talk)
	}
}

// A Redis that has lost everything gets its states again from the instances. A rollback that is
// faster than they are waits for them.
func TestRollbackAfterDataLoss(t *testing.T) {
	server, h := service(t)
	promoteAll(t, h)

	server.FlushAll()
	status, out, talk := shell(t, "", "rollback", "writes", "--reason", "429s")
	if status != 0 || !strings.Contains(out, "promoted -> rolled_back (hold)") {
		t.Errorf("status %d:\n%s%s", status, out, talk)
	}
	if d := h.Decide(t.Context(), &policies.Request{User: "alice"}); d.Enforced.String() != "authoritative" {
		t.Errorf("%+v", d)
	}
}

// Of a connection that breaks after an order was sent it is unknown whether the order is stored.
func TestOrderThatMayBeStoredIsNotDenied(t *testing.T) {
	var sent bool
	store := &sentStore{Store: brokenStore{}, sent: &sent}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := store.Put(ctx, "writes", stages.State{}, stages.Condition{}); err == nil || !sent {
		t.Errorf("%v, sent %t", err, sent)
	}
}

// brokenStore loses the answer of every write.
type brokenStore struct{ stages.Store }

func (brokenStore) Put(context.Context, string, stages.State, stages.Condition) error {
	return context.DeadlineExceeded
}

// A Redis that refuses a command is no outage: instances have a URL of their own, and go on in the stage.
func TestRollbackThatRedisRefuses(t *testing.T) {
	server, _ := service(t)
	server.RequireAuth("sesame")
	status, _, talk := shell(t, "", "rollback", "writes", "--reason", "x", "--redis", "redis://"+server.Addr(), "--name", "checkout")
	missing := firstMissing(flat(talk), []string{"NOT STORED", "password", "URL", "Redis refuses"})
	if status != exitFailure || !atNight(talk) || missing != "" || strings.Contains(talk, "on_store_failure") {
		t.Errorf("status %d, no %q: %s", status, missing, talk)
	}
}

// Where the authoritative's store does not answer, a rollback says what it would do. One that would deny every request is refused
// unless it is forced.
func TestRollbackMakesNoOutage(t *testing.T) {
	for _, tt := range []struct {
		rule, flag string
		status     int
		effect     string
	}{
		{stages.FailDeny, "", exitNotMet, "would be denied"},
		{stages.FailDeny, "--force", exitTimeout, "is denied"},
		{stages.FailLocal, "", exitTimeout, "its share"},
	} {
		_, h := service(t)
		promoteAll(t, h)
		store := inside.Stages(h)
		specs := announcedBy(t, store)
		specs[0].Store, specs[0].OnStoreFailure = "east", tt.rule
		announce(t, store, specs...)
		tell(t, store, stages.Instance{ID: "b", Failing: []string{"east"}, Policies: map[string]stages.Applied{"writes": {}}}) // it applies nothing

		status, out, talk := shell(t, "", strings.Fields("rollback writes --reason x --timeout 300ms "+tt.flag)...)
		states, err := store.States(t.Context(), []string{"writes"})
		told := firstMissing(flat(out+talk), []string{"writes", "store east", "1 of 2", tt.effect, "next: shadowlimit doctor"}) == "" && atNight(out+talk)
		if rolledBack := err == nil && states[0].Stage == stages.RolledBack; status != tt.status || !told || rolledBack != (status != exitNotMet) {
			t.Errorf("%+v: status %d, rolled back %t\n%s%s", tt, status, rolledBack, out, talk)
		}
	}
}

// No instance asks the authoritative's store once the migration is completed: the rollback says so, and is refused where that store
// could deny every request.
func TestRollbackOfACompletedPolicyMakesNoOutage(t *testing.T) {
	for _, tt := range []struct {
		rule, candidateStore string
		warns                bool
		status               int
	}{
		{stages.FailDeny, "", true, exitNotMet},
		{stages.FailAllow, "", true, exitOK},
		{stages.FailLocal, "", true, exitOK},
		{stages.FailDeny, "east", false, exitOK}, // its instances say whether the store answers
	} {
		_, h := service(t)
		promoteAll(t, h)
		if status, _, talk := shell(t, "", strings.Fields("complete writes --reason x --force")...); status != exitOK {
			t.Fatal(talk)
		}
		specs := announcedBy(t, inside.Stages(h))
		specs[0].Store, specs[0].CandidateStore, specs[0].OnStoreFailure = "east", tt.candidateStore, tt.rule
		announce(t, inside.Stages(h), specs...)

		status, out, talk := shell(t, "", strings.Fields("rollback writes --reason x")...)
		if warned := strings.Contains(flat(out+talk), "store east"); !atNight(out+talk) || warned != tt.warns || status != tt.status {
			t.Errorf("%+v: warned %t, status %d\n%s%s", tt, warned, status, out, talk)
		}
	}
}
