package shadow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// cuttable is a store that can be out of reach, or forget.
type cuttable struct {
	stages.Store
	cut atomic.Bool
}

var errCut = errors.New("out of reach")

func (c *cuttable) Heartbeat(ctx context.Context, h stages.Heartbeat) (stages.Heard, error) {
	if c.cut.Load() {
		return stages.Heard{}, errCut
	}
	return c.Store.Heartbeat(ctx, h)
}

// instanceOn starts one instance of a policy named p.
func instanceOn(store stages.Store, id string) (*fleet, *migration) {
	f, m := idleOn(store, id)
	f.start(context.Background())
	return f, m
}

// idleOn makes one that does nothing by itself.
func idleOn(store stages.Store, id string) (*fleet, *migration) {
	log := slog.New(slog.DiscardHandler)
	spec := stages.Spec{Policy: "p", Fingerprint: "e", Config: stages.Config{}.WithDefaults()}
	m := newMigration(spec, bothIn(newMemoryStore()), options{log: log})

	var inUse atomic.Pointer[plan]
	inUse.Store(&plan{migrations: []*migration{m}})
	return newFleet(fleetConfig{
		failing: func() []string { return nil }, ownAway: func() bool { return false },
		id: id, log: log, store: store, ledger: evidence.NewMemoryLedger(), plan: &inUse, view: newFleetView(),
		button:      newButton(RedButton{}, log),
		checkStores: func(context.Context) error { return nil },
	}), m
}

// bothIn are two sides that one store judges together.
func bothIn(st *store) [2]side {
	return [2]side{
		algorithmSide(algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}}, st),
		algorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, st),
	}
}

// A policy without a candidate enforces the authoritative, also where its state names a
// completed candidate of another fingerprint.
func TestMissingCandidateIsNotEnforced(t *testing.T) {
	_, m := idleOn(stages.NewMemoryStore(), "a")
	m.progress.stage.state.Store(&stages.State{
		Stage: stages.Completed, Fingerprint: "another", Past: []stages.Past{{Fingerprint: "e", Stage: stages.Completed}},
	})
	if got := m.enforced(at(0)); got != algorithms.Candidate {
		t.Fatalf("with a candidate: %s is enforced, want the completed candidate", got)
	}

	m.sides[algorithms.Candidate] = side{}
	if got := m.enforced(at(0)); got != algorithms.Authoritative {
		t.Errorf("without a candidate: %s is enforced", got)
	}
}

// What the status page says of an instance is what the instance enforces.
func TestEnforcementIsWhatIsEnforced(t *testing.T) {
	for _, stage := range stages.Stages {
		for _, stored := range []string{"", "e", "another"} {
			for _, heard := range []bool{true, false} {
				for _, completed := range []bool{false, true} {
					_, m := idleOn(stages.NewMemoryStore(), "a")
					s := stages.State{Stage: stage, Percent: 100, Fingerprint: stored}
					if completed && stored == "another" {
						s.Past = []stages.Past{{Fingerprint: "e", Stage: stages.Completed}}
					}
					m.progress.stage.state.Store(&s)
					if heard {
						m.progress.stage.heard.note()
					}

					e := m.enforcement(s, circumstances{})
					side, _, _ := strings.Cut(e.Enforced, " ")
					if got := m.enforced(at(0)).String(); got != side {
						t.Errorf("%s of %q, completed %t: enforces the %s and says %+v", stage, stored, completed, got, e)
					}
				}
			}
		}
	}
}

func TestCutOffCanaryReturnsToTheAuthoritative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &cuttable{Store: stages.NewMemoryStore()}
		f, m := instanceOn(store, "a")
		defer f.close(ctx)
		step := func(to stages.Step) {
			if _, err := stages.Advance(ctx, store, "p", to, stages.Order{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for the notification
		}

		check := func(when string, want algorithms.Role) {
			t.Helper()
			if got := m.enforced(at(0)); got != want {
				t.Errorf("%s: the %s is enforced", when, got)
			}
		}

		step(stages.Step{Stage: stages.Canary, Percent: 100})
		check("in a canary of all", algorithms.Candidate)
		store.cut.Store(true)
		time.Sleep(stages.LeaveCanaryAfter - time.Second)
		check("cut off for a while", algorithms.Candidate)
		time.Sleep(4 * time.Second)
		check("cut off for longer", algorithms.Authoritative)
		store.cut.Store(false)
		time.Sleep(2 * time.Second)
		check("back again", algorithms.Candidate)
		step(stages.Step{Stage: stages.Promoted})
		store.cut.Store(true)
		time.Sleep(time.Hour)
		check("promoted and cut off for an hour", algorithms.Candidate)
	})
}

// A store that forgot a rollback in a failover is told again, and a promotion that
// came in between does not undo it.
func TestForgottenRollbackIsAssertedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remembered := stages.NewMemoryStore()
		f, m := instanceOn(remembered, "a")
		defer f.close(ctx)
		if _, err := stages.Rollback(ctx, remembered, "p", stages.Order{Reason: "bad"}); err != nil {
			t.Fatal(err)
		}

		synctest.Wait()
		f.polling.Lock()
		forgetful := stages.NewMemoryStore() // the replica that took over
		if err := stages.Begin(ctx, forgetful, "p", "e", 0, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := stages.Advance(ctx, forgetful, "p", stages.Step{Stage: stages.Promoted}, stages.Order{}); err != nil {
			t.Fatal(err)
		}

		f.store = forgetful
		f.polling.Unlock()
		time.Sleep(3 * time.Second)
		states, err := forgetful.States(ctx, []string{"p"})
		if err != nil || states[0].Stage != stages.RolledBack || !states[0].Hold {
			t.Errorf("the store has %+v, %v, want the rollback again", states, err)
		}
		if got := m.enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("the %s is enforced", got)
		}
	})
}

func TestInstancesStartWithoutTheirStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &cuttable{Store: stages.NewMemoryStore()}
		store.cut.Store(true)
		f, m := instanceOn(store, "a")
		defer f.close(ctx)
		if got := m.enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("the %s is enforced", got)
		}

		store.cut.Store(false)
		time.Sleep(3 * time.Second)
		if s := m.progress.stage.state.Load(); s.Fingerprint != "e" || s.Stage != stages.Shadow {
			t.Errorf("once the store answers the state is %+v", s)
		}
	})
}

func TestJoinedDecisions(t *testing.T) {
	allow := func(policy string, remaining int64, delay time.Duration) Decision {
		return Decision{Decision: algorithms.Decision{Allowed: true, Remaining: remaining, Delay: delay}, Policy: policy}
	}

	deny := func(policy string, retry time.Duration) Decision {
		return Decision{Decision: algorithms.Decision{RetryAfter: retry}, Policy: policy}
	}

	tests := []struct {
		name       string
		give       []Decision
		wantPolicy string
		wantDelay  time.Duration
	}{
		{"the least remaining", []Decision{allow("a", 5, 0), allow("b", 3, 0), allow("c", 4, 0)}, "b", 0},
		{"ties in file order", []Decision{allow("a", 3, 0), allow("b", 3, 0)}, "a", 0},
		{"unknown is the most", []Decision{allow("a", -1, 0), allow("b", 1000, 0)}, "b", 0},
		{"a denial counts before all", []Decision{allow("a", 0, 0), deny("b", 1), allow("c", 0, 0)}, "b", 0},
		{"the longest wait", []Decision{deny("a", 1), deny("b", algorithms.Never), deny("c", 2)}, "b", 0},
		{"the longest delay, whoever has it", []Decision{allow("a", 9, 7), allow("b", 3, 5)}, "b", 7},
	}

	for _, tt := range tests {
		d := unlimited()
		for _, other := range tt.give {
			d.join(&other)
		}
		if d.Policy != tt.wantPolicy || d.Delay != tt.wantDelay {
			t.Errorf("%s: %+v, want policy %s with delay %s", tt.name, d, tt.wantPolicy, tt.wantDelay)
		}
	}
}
