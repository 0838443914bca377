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

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// longVariable asks for what takes too long for an ordinary run.
const longVariable = "SHADOWLIMIT_LONG"

// long skips a test that takes a quarter of a minute and more where make test is short: it waits for deployments, outages and
// judges, or asks other limiters for thousands of decisions.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") != "true" {
		t.Skip("takes long: CI runs it, and make long")
	}
}

// automaticFile lets controllers roll back.
const automaticFile = serviceFile + "promotion: { mode: automatic }\n"

// bench is processes of which each may judge.
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
	b.store = promotion.NewRedisStore(b.client, b.name)
	t.Cleanup(func() { b.explain(t) })
	for n := range instances {
		id := fmt.Sprint("judge", n)
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
	count, err := b.store.Count(ctx)
	list, _ := b.store.Judged(ctx, []string{"per-user"})
	t.Logf("counted at %s: %+v, %v; judged %+v", count.At, count.Policies["per-user"], err, list)
	history, _ := b.store.History(ctx, "per-user")
	for _, s := range history {
		t.Logf("%s %s by %s: %s", s.At, s, s.Actor, s.Reason)
	}
}

// promote enforces the candidate for all keys.
func (b *bench) promote(t *testing.T) promotion.State {
	t.Helper()
	return must(t)(promotion.Advance(t.Context(), b.store, "per-user", promotion.Step{Stage: promotion.Promoted}, drillOrder))
}

// judged returns the last judgement, and the process that made it.
func (b *bench) judged(t *testing.T) (promotion.Judgement, string) {
	t.Helper()
	list, err := b.store.Judged(t.Context(), []string{"per-user"})
	if err != nil {
		t.Fatal(err)
	}
	for id := range b.fleet {
		if strings.HasPrefix(list[0].By, id+"-") {
			return list[0], id
		}
	}
	return list[0], ""
}

// awaitJudge waits until the instance judges that the teller has named.
func (b *bench) awaitJudge(t *testing.T) (id string) {
	t.Helper()
	b.await(t, time.Minute, "judged by the named instance", func() bool {
		count, err := b.store.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last, by := b.judged(t)
		id = by
		return by != "" && last.By == count.Policies["per-user"].Judge
	})
	return id
}

// awaitOther waits until another instance judges.
func (b *bench) awaitOther(t *testing.T, than string) {
	t.Helper()
	b.await(t, 15*time.Second, "judged by another instance than "+than, func() bool {
		_, by := b.judged(t)
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

// A judge that is stopped is replaced within 15 s. While it is, the candidate does harm and is rolled back, and an operator
// promotes it again: the judge that goes on moves nothing on what it knew, and takes no judgement back. Then it is killed,
// and replaced, too.
func TestJudgesThatStopAndDie(t *testing.T) {
	long(t)
	stopped := 32 * time.Second // evidence is too old for a move after 30 s
	if os.Getenv(longVariable) != "" {
		stopped = time.Minute
	}
	b := newBench(t, 3)
	b.promote(t)

	judge := b.awaitJudge(t)
	since := time.Now()
	b.signal(t, judge, syscall.SIGSTOP)
	b.awaitOther(t, judge)
	b.harm(t, judge)
	b.await(t, 20*time.Second, "rolled back", func() bool { return b.state(t).Stage == promotion.RolledBack })
	must(t)(promotion.Resume(t.Context(), b.store, "per-user", drillOrder))
	again := b.promote(t)

	<-time.After(time.Until(since.Add(stopped)))
	last, _ := b.judged(t)
	b.signal(t, judge, syscall.SIGCONT)
	b.await(t, 30*time.Second, "judged by the instance that was stopped", func() bool {
		now, by := b.judged(t)
		if now.At.Before(last.At) || b.state(t).Version != again.Version {
			t.Fatalf("the judge has gone on: judged at %s after %s; %s after %s", now.At, last.At, b.state(t), again)
		}
		last = now
		return by == judge
	})
	b.checkRollbacks(t, judge)

	judge = b.awaitJudge(t)
	b.signal(t, judge, syscall.SIGKILL)
	b.awaitOther(t, judge)
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
	rollbacks := slices.DeleteFunc(history, func(s promotion.State) bool { return s.Stage != promotion.RolledBack })
	if len(rollbacks) != 1 || strings.Contains(rollbacks[0].Actor, stopped) {
		t.Errorf("rollbacks %v, want one, and not by %s", rollbacks, stopped)
	}
}
