package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// longVariable asks for what takes too long for an ordinary run.
const longVariable = "SHADOWLIMIT_LONG"

// long skips a test that takes a quarter of a minute and more where make test is short: it waits for deployments, outages and
// leaders, or asks other limiters for thousands of decisions.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") != "true" {
		t.Skip("takes long: CI runs it, and make long")
	}
}

// automaticFile lets controllers roll back.
const automaticFile = serviceFile + "promotion: { mode: automatic }\n"

// bench is processes of which each may lead.
type bench struct {
	*rollout
	fleet map[string]*service // by the beginning of their ids
}

func newBench(t *testing.T, instances int) *bench {
	t.Helper()
	t.Parallel() // it mostly waits
	b := &bench{&rollout{addr: privateServer(t), name: namespace()}, map[string]*service{}}
	b.client = redis.NewClient(&redis.Options{Addr: b.addr})
	t.Cleanup(func() { b.client.Close() })
	b.store = stages.NewRedisStore(b.client, b.name)
	t.Cleanup(func() { b.explain(t) })
	for n := range instances {
		id := fmt.Sprint("leader", n)
		b.fleet[id] = b.start(t, 1, fileVariable+"="+automaticFile, instanceVariable+"="+id)[0]
	}
	return b
}

// explain logs, after a failure, how the fleet came where it is.
func (b *bench) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	ctx := context.Background()
	fleet, err := b.store.Fleet(ctx)
	list, _ := b.store.Published(ctx, []string{"per-user"}, false)
	t.Logf("%q leads, %v; found at %s", fleet.Leader, err, list[0].Evidence.Now)
	history, _ := b.store.History(ctx, "per-user")
	for _, s := range history {
		t.Logf("%s %s by %s: %s", s.At, s, s.Actor, s.Reason)
	}
}

// promote enforces the candidate for all keys.
func (b *bench) promote(t *testing.T) stages.State {
	t.Helper()
	return must(t)(stages.Advance(t.Context(), b.store, "per-user", stages.Step{Stage: stages.Promoted}, drillOrder))
}

// found returns when the leader last evaluated, and which process that is.
func (b *bench) found(t *testing.T) (at time.Time, leader string) {
	t.Helper()
	list, err := b.store.Published(t.Context(), []string{"per-user"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for id := range b.fleet {
		if strings.HasPrefix(list[0].Leader, id+"-") {
			return list[0].Evidence.Now, id
		}
	}
	return list[0].Evidence.Now, ""
}

// awaitLeader waits until some instance leads.
func (b *bench) awaitLeader(t *testing.T) (id string) {
	t.Helper()
	b.await(t, time.Minute, "evaluated", func() bool {
		_, id = b.found(t)
		return id != ""
	})
	return id
}

// awaitOther waits until another instance has evaluated the policy.
func (b *bench) awaitOther(t *testing.T, than string) {
	t.Helper()
	b.await(t, 20*time.Second, "evaluated by another instance than "+than, func() bool {
		_, by := b.found(t)
		return by != "" && by != than
	})
}

// harm has the candidate deny many clients that the authoritative allows.
func (b *bench) harm(t *testing.T, without string) {
	t.Helper()
	var others []*service
	for id, one := range b.fleet {
		if id != without {
			others = append(others, one)
		}
	}
	load(t, others, 60, 5)
}

// A leader that is stopped is replaced within 20 s. While it is, the candidate does harm and is rolled back, and an operator
// promotes it again: the instance that goes on moves nothing on what it knew, and takes nothing back. Then the next leader
// is killed, and replaced, too.
func TestLeadersThatStopAndDie(t *testing.T) {
	long(t)
	stopped := 45 * time.Second // evidence is too old for a move after 30 s
	if os.Getenv(longVariable) != "" {
		stopped = 3 * time.Minute
	}
	b := newBench(t, 3)
	b.promote(t)

	leader := b.awaitLeader(t)
	since := time.Now()
	b.signal(t, leader, syscall.SIGSTOP)
	b.awaitOther(t, leader)
	b.harm(t, leader)
	b.await(t, 20*time.Second, "rolled back", func() bool { return b.state(t).Stage == stages.RolledBack })
	must(t)(stages.Resume(t.Context(), b.store, "per-user", drillOrder))
	again := b.promote(t)

	<-time.After(time.Until(since.Add(stopped)))
	last, _ := b.found(t)
	b.signal(t, leader, syscall.SIGCONT)
	for range 10 {
		<-time.After(time.Second)
		now, by := b.found(t)
		if now.Before(last) || by == leader || b.state(t).Version != again.Version {
			t.Fatalf("%s has gone on: found by %s at %s after %s; %s after %s", leader, by, now, last, b.state(t), again)
		}
		last = now
	}
	b.checkRollbacks(t, leader)

	leader = b.awaitLeader(t)
	b.signal(t, leader, syscall.SIGKILL)
	b.awaitOther(t, leader)
}

func (b *bench) signal(t *testing.T, id string, s syscall.Signal) {
	t.Helper()
	if err := b.fleet[id].cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// checkRollbacks holds that there was one, by another instance than the one that was stopped.
func (b *bench) checkRollbacks(t *testing.T, stopped string) {
	t.Helper()
	history, err := b.store.History(t.Context(), "per-user")
	if err != nil {
		t.Fatal(err)
	}
	rollbacks := slices.DeleteFunc(history, func(s stages.State) bool { return s.Stage != stages.RolledBack })
	if len(rollbacks) != 1 || strings.Contains(rollbacks[0].Actor, stopped) {
		t.Errorf("rollbacks %v, want one, and not by %s", rollbacks, stopped)
	}
}
