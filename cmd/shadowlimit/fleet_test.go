package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/cmd/shadowlimit/internal/demo"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const fleetFile = `
version: 1
name: checkout
generation: 1
policies:
  - name: writes
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

// service starts an instance on a Redis and points the commands at it.
func service(t *testing.T) (*miniredis.Miniredis, *shadow.Harness) {
	t.Helper()
	server := miniredis.RunT(t)
	t.Setenv("SHADOWLIMIT_REDIS", "redis://"+server.Addr())
	t.Setenv("SHADOWLIMIT_NAME", "checkout")
	return server, instance(t, server, "a")
}

func instance(t *testing.T, server *miniredis.Miniredis, id string) *shadow.Harness {
	t.Helper()
	return instanceOf(t, server, id, fleetFile)
}

// instanceOf starts an instance with a policy file.
func instanceOf(t *testing.T, server *miniredis.Miniredis, id, file string) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("fleet.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}

	client, err := openRedis("redis://"+server.Addr(), demo.Budget)
	if err != nil {
		t.Fatal(err)
	}

	h, err := shadow.New(shadow.Config{
		Policies: set, Redis: client, Instance: id, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		h.Close(context.Background())
		client.Close()
	})
	return h
}

func TestStatusIsTheContract(t *testing.T) {
	_, h := service(t)
	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "alice"})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	status, out, talk := shell(t, "", "status", "-o", "json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, talk)
	}

	var report struct {
		Name     string
		Policies []map[string]any
	}
	decoded(t, out, &report)
	if report.Name != "checkout" || len(report.Policies) != 1 {
		t.Fatal(out)
	}

	p := report.Policies[0]
	for field, want := range map[string]any{
		"name": "writes", "stage": "shadow", "percent": 0.0, "hold": false, "term": 1.0, "seq": 1.0,
		"enforced": "authoritative", "comparisons": 3.0, "agree_allow": 1.0, "agree_deny": 1.0,
		"newly_denied": 1.0, "newly_allowed": 0.0, "candidate_error": 0.0,
		"keys": 1.0, "keys_newly_denied": 1.0, "keys_newly_allowed": 0.0,
	} {
		if p[field] != want {
			t.Errorf("%s is %v, want %v", field, p[field], want)
		}
	}

	verdict := p["gate"].(map[string]any)
	has(t, "gate", verdict, contractOfReplay.gate)
	if verdict["verdict"] != gate.Wait {
		t.Errorf("verdict %v", verdict["verdict"])
	}

	if top := fmt.Sprint(p["top_newly_denied"]); !strings.Contains(top, "alice") {
		t.Errorf("top newly denied: %s", top)
	}

	i := p["instances"].([]any)[0].(map[string]any)
	if !strings.HasPrefix(i["id"].(string), "a-") || i["applied"] != "1.1" || i["age_seconds"].(float64) > 15 {
		t.Errorf("instance %v", i)
	}
}

// A promote that was stopped after its look at the evidence does not act on it later. A forced one depends on none.
func TestPromoteByOldEvidence(t *testing.T) {
	_, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	app := newApp(streams{strings.NewReader(""), io.Discard, io.Discard})
	promote := app.Command("promote")
	promote.Action = withFleet(needsPolicy, func(c *cli.Context, f *fleet) error {
		list, err := f.assess(c.Context, "writes")
		if err != nil {
			return err
		}

		list[0].Evidence.Now = list[0].Evidence.Now.Add(-time.Hour)
		_, err = promoteDo(c.Context, &task{cli: c, fleet: f, assessment: &list[0], order: stages.Order{}})
		if err != nil {
			return refusedMove("writes", err)
		}
		return nil
	})

	var has statusError
	if err := app.RunContext(t.Context(), []string{"shadowlimit", "promote", "writes"}); !errors.As(err, &has) || has.status != exitConflict {
		t.Errorf("%v, want the status %d", err, exitConflict)
	}
	if err := app.RunContext(t.Context(), []string{"shadowlimit", "promote", "--force", "writes"}); err != nil {
		t.Error(err)
	}
}

func TestWholeWayByHand(t *testing.T) {
	server, _ := service(t)
	instance(t, server, "b")

	steps := []struct {
		args       string
		wantStatus int
		want       string // parts of output and talk, in their order
	}{
		{"validate nothing.yaml", 1, "no such file"},
		{"status", 0, "writes|shadow|wait|status POLICY"},
		{"status writes", 0, "writes|stage|shadow|next|wait|instances|no"},
		{"status nothing", 1, `checkout|"nothing"|writes`},
		{"status writes nothing", 1, `checkout|"nothing"|writes`},
		{"status -o yaml", 2, "want text or json"},
		{"status --name other", 1, `no instance of "other"`},
		{"promote writes", 2, "needs a reason"},
		{"promote --reason x", 2, "needs a policy"},
		{"promote writes --reason x", 3, "wait|requests compared: have 0, need 1"},
		{"promote writes --reason x --to 7", 2, "no percentage"},
		{"promote writes --reason x --to 10% --full", 2, "contradict"},
		{"promote writes --reason x --force --expect 9", 2, "want TERM.SEQ"},
		{"promote writes --reason x --force --expect 9.9", 4, "is at 1.1, not 9.9"},
		{"promote writes --force --reason", 2, "needs an argument: -reason"},
		{"promote writes --reason --force", 2, "needs an argument: -reason"},
		{"promote writes --reason x --timeout -3s", 2, "want a time above 0"},
		{"promote writes --force", 2, "needs a reason"},
		{"help promote", 0, "--force"},
		{"promote writes --force --reason x", 0, "2/2 applied"},
		{"promote --reason x writes --force --to 50%", 0, "canary 1 % -> canary 50 %"},
		{"promote writes --reason x --force --to 10%", 3, "no way back but a rollback"},
		{"promote writes --reason x --force --to 50%", 4, "canary 50 % already"},
		{"pause writes --reason wait", 0, "canary 50 % (hold)"},
		{"pause writes", 3, "on hold"},
		{"promote writes --reason x --force", 3, "shadowlimit resume writes"},
		{"resume writes", 0, "canary 50 % (hold) -> canary 50 %"},
		{"resume writes", 3, "not on hold"},
		{"promote writes --reason x --force --to 100%", 0, "canary 50 % -> promoted"},
		{"promote writes --reason x --force", 3, "the next move is complete"},
		{"promote writes --reason x --expect 1.1", 4, "not 1.1"},
		{"complete writes", 2, "needs a reason"},
		{"complete writes --reason x", 3, "168h0m0s"},
		{"status writes", 0, "enforced       candidate"},
		{"rollback writes", 2, "needs a reason"},
		{"complete writes --reason x --force", 0, "promoted -> completed"},
		{"complete writes --reason x --force", 3, "completed"},
		{"promote writes --reason x --force", 3, "completed"},
		{"rollback nothing --reason x", 1, `checkout|"nothing"|writes`},
		{"rollback writes --expect 1.1 --reason x", 4, "not 1.1"},
		{"rollback writes --reason enough\x1b[2J", 0, "completed -> rolled_back (hold), version |2/2 applied"},
		{"rollback writes --reason again", 0, "writes: still rolled_back (hold), version "},
		{"rollback writes --reason again", 0, `already|: "enough\x1b[2J"`},
		{"resume writes --reason again", 0, "-> shadow"},
		{"promote writes --reason x --force --to promoted", 0, "shadow -> promoted"},
		{"complete writes --reason x --force", 0, "promoted -> completed"},
		{"rollback writes --reason x", 0, "the authoritative is cold"},
		{"history writes", 0, "enough"},
		{"history nothing", 1, "no policy"},
		{"history", 2, "needs one policy"},
		{"top writes --denied", 0, "0 keys denied by the authoritative"},
		{"top nothing", 1, "no policy"},
		{"controller x", 2, "no arguments"},
	}

	for _, step := range steps {
		status, out, talk := shell(t, "", strings.Fields(step.args)...)
		if status != step.wantStatus || firstMissing(out+talk, strings.Split(step.want, "|")) != "" {
			t.Errorf("%s: status %d, want %d with %q:\n%s%s", step.args, status, step.wantStatus, step.want, out, talk)
		}
	}
}

func TestInstanceThatDoesNotApplyIsNamed(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	has := func(id, fingerprint string, term int64) {
		v := stages.Version{Term: term, Seq: 1}
		tell(t, inside.Stages(h), stages.Instance{ID: id, Policies: map[string]stages.Applied{"writes": {Version: v, Fingerprint: fingerprint}}})
	}
	has("stuck", "", 1)
	has("old", "another", time.Now().Unix()+100)
	has("gone", "", 1)
	silence(t, server, "gone", time.Minute)

	status, out, talk := shell(t, "", "rollback", "writes", "--reason", "x", "--timeout", "2s")
	wanted := []string{"1 of 4 applied", "NOT REACHED, may still enforce the candidate: gone", "not applied: old, stuck", "next: end the process"}
	missing := firstMissing(out+talk, wanted)
	if status != exitTimeout || missing != "" || !atNight(out+talk) {
		t.Errorf("status %d, no %q:\n%s%s", status, missing, out, talk)
	}
}

// A rollback that reaches none of the instances that may run is no success; one that reaches some is.
func TestRollbackThatReachesNobody(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	tell(t, inside.Stages(h), stages.Instance{ID: "gone", Policies: map[string]stages.Applied{"writes": {Version: stages.Version{Term: 1, Seq: 1}}}})
	silence(t, server, "gone", time.Minute)
	if status, out, talk := shell(t, "", "rollback", "writes", "--reason", "x", "--timeout", "2s"); status != exitOK {
		t.Errorf("others have applied it: status %d:\n%s%s", status, out, talk)
	}

	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, out, talk := shell(t, "", "rollback", "writes", "--reason", "again", "--timeout", "2s"); status != exitTimeout {
		t.Errorf("nobody has heard of it: status %d:\n%s%s", status, out, talk)
	}
}

// The command stores a rollback again in a Redis that has failed and lost it, until every instance
// has applied it.
func TestRollbackIsInsistedOn(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	client, err := openRedis(url, demo.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	store := stages.NewRedisStore(client, "checkout")
	heartbeat := func(v stages.Version) {
		applied := map[string]stages.Applied{"writes": {Version: v, Fingerprint: "e"}}
		tell(t, store, stages.Instance{ID: "a", Policies: applied})
	}

	if err := stages.Begin(t.Context(), store, "writes", "e", 0, "test"); err != nil {
		t.Fatal(err)
	}
	heartbeat(stages.Version{Term: 1, Seq: 1})

	stored := func() bool {
		late := time.After(10 * time.Second)
		for tick := time.Tick(time.Millisecond); ; {
			states, err := store.States(t.Context(), []string{"writes"})
			if err == nil && states[0].Stage == stages.RolledBack {
				return true
			}

			select {
			case <-tick:
			case <-late:
				return false
			}
		}
	}

	var status int
	var out, talk string
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, out, talk = shell(t, "", strings.Fields("rollback writes --reason x --name checkout --redis "+url)...)
	}()
	if !stored() {
		t.Error("the rollback is not stored")
	}

	server.SetError("LOADING Redis is loading the dataset in memory")
	server.Del("shadowlimit1:{checkout}:states")
	server.SetError("")
	if !stored() {
		t.Error("the rollback is not stored again")
	}

	states, err := store.States(t.Context(), []string{"writes"})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat(states[0].Version)
	if <-done; status != 0 || !strings.Contains(out, "1/1 applied") {
		t.Errorf("status %d:\n%s%s", status, out, talk)
	}
}

// While Redis was away no instance could report. A rollback that is stored just after that waits for them, and names none as lost.
func TestRollbackWaitsForInstancesThatCouldNotReport(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	client, err := openRedis(url, demo.Budget)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	store := stages.NewRedisStore(client, "checkout")
	heartbeat := func(v stages.Version) {
		tell(t, store, stages.Instance{ID: "a", Policies: map[string]stages.Applied{"writes": {Version: v, Fingerprint: "e"}}})
	}
	if err := stages.Begin(t.Context(), store, "writes", "e", 0, "test"); err != nil {
		t.Fatal(err)
	}
	heartbeat(stages.Version{Term: 1, Seq: 1})
	silence(t, server, "a", time.Minute)

	said, talk := io.Pipe()
	var out bytes.Buffer
	status := make(chan int, 1)
	go func() {
		args := strings.Fields("rollback writes --reason x --name checkout --redis " + url)
		status <- run(t.Context(), args, streams{strings.NewReader(""), &out, talk})
		talk.Close()
	}()

	// It says that it waits. Then the instance reports.
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting up to 15s") {
	}
	states, err := store.States(t.Context(), []string{"writes"})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat(states[0].Version)
	rest, err := io.ReadAll(said)
	if got := <-status; err != nil || got != exitOK || !strings.Contains(out.String(), "1/1 applied") || len(rest) > 0 {
		t.Errorf("status %d, %v:\n%s%s", got, err, &out, rest)
	}
}

func TestControllerPromotesAndSays(t *testing.T) {
	service(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	var out, talk strings.Builder
	status := run(ctx, []string{"controller"}, streams{strings.NewReader(""), &out, &talk})
	if status != 0 || strings.Count(out.String(), "the gate says") != 1 {
		t.Errorf("status %d:\n%s%s", status, out.String(), talk.String())
	}
}

// inAnOutage is what a rollback says that cannot be stored.
var inAnOutage = []string{"NOT STORED", "connection refused", "promoted", stages.LeaveCanaryAfter.String(), "red button", "POST"}

func TestCommandsSayWhatIsMissing(t *testing.T) {
	t.Setenv("SHADOWLIMIT_REDIS", "")
	t.Setenv("SHADOWLIMIT_NAME", "")

	for args, want := range map[string]string{
		"status":                           "no service named",
		"status --name a":                  "no Redis to talk to",
		"status --name a --redis http://x": "--redis",
	} {

		if status, _, talk := shell(t, "", strings.Fields(args)...); status != 2 || !strings.Contains(talk, want) {
			t.Errorf("%s: status %d: %s", args, status, talk)
		}
	}
	status, _, talk := shell(t, "", "status", "--name", "a", "--redis", "redis://127.0.0.1:1")
	if status != 1 || !strings.Contains(talk, "connection refused") {
		t.Errorf("no server there: status %d: %s", status, talk)
	}

	status, _, talk = shell(t, "", strings.Fields("rollback writes --reason x --name a --redis redis://127.0.0.1:1")...)
	if status != 1 || firstMissing(flat(talk), inAnOutage) != "" || !atNight(talk) {
		t.Errorf("a rollback without a server: status %d: %s", status, talk)
	}

	// No address is shown with its password, and a wrong invocation needs no server to be refused.
	for args, want := range map[string]string{
		"rollback writes --reason x --name a --redis redis://:secret@127.0.0.1:1":                        "NOT STORED",
		"rollback writes --reason x --name a --redis redis+sentinel://x:1?master_name=m&password=secret": "NOT STORED",
		"rollback writes --name a --redis redis://127.0.0.1:1":                                           "rollback needs a reason",
		"rollback --reason x --name a --redis redis://127.0.0.1:1":                                       "rollback needs a policy",
	} {
		if _, _, talk := shell(t, "", strings.Fields(args)...); !strings.Contains(talk, want) || strings.Contains(talk, "secret") {
			t.Errorf("%s: no %q in\n%s", args, want, talk)
		}
	}

	status, _, talk = shell(t, "", "nothing")
	if status != 2 || !strings.Contains(talk, "completion") {
		t.Errorf("no such command: status %d: %s", status, talk)
	}

	server, _ := service(t)
	server.RequireAuth("secret")
	status, _, talk = shell(t, "", "status")
	if status != 1 || !strings.Contains(talk, "redis://USER:PASSWORD@HOST:PORT") {
		t.Errorf("no password: status %d: %s", status, talk)
	}
}
