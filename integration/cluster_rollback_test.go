package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A node of a cluster hangs. If it has records and evidence, every command and rollback works, of all policies. If it has
// the stages, a rollback says so at once. In both cases doctor names the node and what it has.
func TestRollbackWithANodeThatHangs(t *testing.T) {
	t.Parallel()
	long(t)
	ctx := t.Context()
	cluster := startCluster(t)
	full := func(ctx context.Context, node *redis.Client) error {
		return node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	}
	if err := cluster.ForEachMaster(ctx, full); err != nil {
		t.Fatal(err)
	}
	addrs := cluster.Options().Addrs
	on := func(key string) string {
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return node.Options().Addr
	}
	draw := func(addr, format string) (drawn string) {
		for n := 0; drawn == "" || on(fmt.Sprintf("{%s}", drawn)) != addr; n++ {
			drawn = fmt.Sprintf(format, n)
		}
		return drawn
	}

	// The node that hangs first is the first one, to which go-redis sends what has no key.
	name := draw(addrs[1], namespace()+"-%d")
	policyOn := func(addr string) string { return strings.TrimPrefix(draw(addr, name+":p%d"), name+":") }
	evidence, records, last := policyOn(addrs[0]), policyOn(addrs[1]), policyOn(addrs[2])
	text := "version: 1\nname: " + name + "\ngeneration: 1\npolicies:\n"
	for _, policy := range []string{evidence, records, last} {
		text += `  - { name: ` + policy + `, key: request.user, when: request.path == "/` + policy + `", on_store_failure: deny,
      authoritative: { algorithm: fixed_window, limit: 1000000, window: 1h }, candidate: { algorithm: gcra, limit: 1000, window: 1h, burst: 1 } }` + "\n"
	}
	set, err := policies.Load("cluster.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: true}, lua.DefaultBudget))
	defer client.Close()
	h := harnessOf(t, shadow.Config{Policies: set, Redis: client, Logger: slog.New(slog.DiscardHandler)})
	if err := h.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	store := stages.NewRedisStore(cluster, name)
	for _, policy := range []string{evidence, records, last} {
		must(t)(stages.Advance(ctx, store, policy, stages.Step{Stage: stages.Promoted}, drillOrder))
	}
	if err := h.Sync(ctx); err != nil {
		t.Fatal(err)
	}

	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, out string) {
		url := "redis+cluster://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2]
		cmd := exec.Command(path, append(args, "--redis", url, "--name", name)...)
		text, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	named := func(addr, what string) {
		t.Helper()
		found := doctor(t, "redis+cluster://"+addrs[2]+"?addr="+addr, name)
		is := func(f finding) bool {
			return f.Node == addr && f.Level == "problem" && strings.Contains(f.Message, what)
		}
		if found.status != 1 || slices.IndexFunc(found.findings, is) < 0 {
			t.Errorf("doctor does not name %s with %s: %+v", addr, what, found)
		}
	}

	resume := hang(t, addrs[0])
	deadline := time.Now().Add(time.Minute)
	for fallbacks := 0; fallbacks < 20; { // until a breaker is open
		d := h.Decide(ctx, &policies.Request{User: rand.Text(), Path: "/" + records})
		if d.Fallback {
			fallbacks++
		}
		if time.Now().After(deadline) {
			t.Fatal("no decision falls back")
		}
	}
	_ = h.Sync(ctx) // writing evidence fails
	named(addrs[0], evidence)
	_, out := run("status")
	if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, addrs[0]+": no answer") || !strings.Contains(words, "evidence of "+evidence+":") {
		t.Errorf("status does not name %s with %s:\n%s", addrs[0], evidence, out)
	}
	var report status.Report
	_, out = run("status", "-o", "json")
	want := []status.Node{{Address: addrs[0], Policies: []string{evidence}}}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Nodes) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	want[0].Message = report.Nodes[0].Message
	if !reflect.DeepEqual(report.Nodes, want) {
		t.Errorf("unreachable nodes: %+v, want %+v", report.Nodes, want)
	}
	for _, args := range [][]string{
		{"status"}, {"rollback", records, "--reason", "drill"}, {"rollback", evidence, "--reason", "drill"},
	} {
		if status, out := run(args...); status != 0 {
			t.Errorf("%v ended with status %d: %s", args, status, out)
		}
	}
	resume()

	resume = hang(t, addrs[1])
	named(addrs[1], "stages")
	if status, out := run("rollback", last, "--reason", "drill"); status != 1 || !strings.Contains(out, "NOT STORED") || !strings.Contains(out, addrs[1]) {
		t.Errorf("a rollback without the stages ended with status %d: %s", status, out)
	}
	resume()
	if status, out := run("rollback", last, "--reason", "drill"); status != 0 {
		t.Errorf("a rollback after the outage ended with status %d: %s", status, out)
	}
}

// hang stops a server, without closing its connections, until the returned function is called.
func hang(t *testing.T, addr string) (resume func()) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	var pid int
	if _, err := fmt.Sscan(client.InfoMap(t.Context(), "server").Item("Server", "process_id"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}
