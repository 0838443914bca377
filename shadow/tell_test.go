package shadow

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// asked lets a migration's recorder count a request, as a decided one does.
func asked(m *migration) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	m.progress.recorder.Observe("k", 1, time.Now(), &[2]algorithms.Observation{allow, allow}, &divergence.Setting{Cost: 1})
}

// newlyDenied lets a recorder count a request that the enforced candidate denies, and the authoritative allows.
func newlyDenied(m *migration, hash uint64) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	setting := &divergence.Setting{Cost: 1, Enforced: algorithms.Candidate}
	m.progress.recorder.Observe(fmt.Sprint(hash), hash<<32, time.Now(), &[2]algorithms.Observation{allow, {}}, setting)
}

// running starts an instance of an epoch, with a log.
func running(store promotion.Store, id, epoch string) (*fleet, *migration, *bytes.Buffer) {
	f, m := idleOn(store, id)
	var log bytes.Buffer
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	m.progress.log = f.log
	m.spec.Epoch = epoch
	f.start()
	return f, m, &log
}

// Two instances with the next file beside one with the file before. Without a request they
// change nothing and say so, once. When they have decided one, their epoch takes over, and
// only then their thresholds are those of the fleet. When they close, all is as it was.
func TestFleetFollowsTheInstancesThatDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := promotion.NewMemoryStore()
		announced := func() string {
			specs, err := store.Specs(ctx)
			if err != nil || len(specs) != 1 {
				t.Fatalf("%v, %v", specs, err)
			}
			return specs[0].Epoch
		}
		expect := func(when, stage, epoch string) {
			t.Helper()
			states, err := store.States(ctx, []string{"p"})
			if s := states[0]; err != nil || s.Describe() != stage || s.Epoch != epoch || announced() != epoch {
				t.Errorf("%s: %s of %s, announced %s, want %s of %s", when, s, s.Epoch, announced(), stage, epoch)
			}
		}

		before, m, _ := running(store, "before", "e")
		defer before.close(ctx)
		asked(m)
		if _, err := promotion.Advance(ctx, store, "p", promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
			t.Fatal(err)
		}

		var next []*fleet
		var migrations []*migration
		var logs []*bytes.Buffer
		for n := range 2 {
			f, m, log := running(store, fmt.Sprint("next ", n), "f")
			next, migrations, logs = append(next, f), append(migrations, m), append(logs, log)
		}
		time.Sleep(2 * time.Minute)
		expect("no request yet", "promoted", "e")
		if n := strings.Count(logs[0].String(), "has another policy file"); n != 1 || !migrations[0].differs() {
			t.Errorf("%d lines, differs %t:\n%s", n, migrations[0].differs(), logs[0])
		}
		if got := migrations[0].enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("an instance of another epoch enforces the %s", got)
		}

		for _, m := range migrations {
			asked(m)
		}
		time.Sleep(45 * time.Second)
		expect("two of three", "shadow", "f")
		if v := m.progress.recentVotes(); v == nil || v.Epochs["f"].Votes != 2 || v.Epochs["e"].Votes != 1 {
			t.Errorf("the votes are %+v", v)
		}

		for _, f := range next {
			if err := f.close(ctx); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(3 * time.Second)
		expect("closed", "promoted", "e")
	})
}

// A reload that brings another file takes effect at once on a single instance, and another
// generation of the same file reaches the state.
func TestReloadOfASingleInstanceHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := promotion.NewMemoryStore()
		n := &node{}
		n.fleet, n.migration = instanceOn(store, "a")
		time.Sleep(2 * time.Second)

		n.use("f", 3)
		synctest.Wait()
		if s := n.progress.stage.state.Load(); s.Epoch != "f" {
			t.Errorf("after the reload: %s of %s", s, s.Epoch)
		}
		asked(n.migration)
		time.Sleep(10 * time.Second)
		if s := n.progress.stage.state.Load(); s.Generation != 3 {
			t.Errorf("generation %d, want 3", s.Generation)
		}

		// The next teller need not wait for the end of the lease.
		if err := n.fleet.close(ctx); err != nil {
			t.Error(err)
		}
		if held, err := store.Lease(ctx, "b", time.Second); err != nil || !held {
			t.Errorf("the lease of a closed instance: held %t, %v", held, err)
		}
	})
}

// A failover takes back what is announced, when every instance of the stored epoch is gone. One of
// another epoch announces the policy, so that it is judged and commands know it.
func TestPolicyOfAnotherEpochIsAnnouncedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := promotion.NewMemoryStore()
		must(t, promotion.Begin(t.Context(), store, "p", "gone", "test"))
		f, _ := idleOn(store, "a")
		must(t, f.poll(t.Context()))

		must(t, f.assess(t.Context(), nil))
		must(t, f.assess(t.Context(), nil))
		judged, err := store.Judged(t.Context(), []string{"p"})
		if err != nil || judged[0].By != "a" {
			t.Errorf("the policy was judged %+v, %v, want it judged by a", judged[0], err)
		}
	})
}
