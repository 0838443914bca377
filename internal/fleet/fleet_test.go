package fleet

import (
	"context"
	"errors"
	"log/slog"
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
func instanceOn(store stages.Store, id string) (*Fleet, *Policy) {
	f, p := idleOn(store, id)
	f.Start(context.Background())
	return f, p
}

// idleOn makes one that does nothing by itself.
func idleOn(store stages.Store, id string) (*Fleet, *Policy) {
	log := slog.New(slog.DiscardHandler)
	p := policyOf("p", "e")
	button := NewButton(ButtonConfig{}, new(atomic.Bool), log)
	f := New(Config{
		SilentStores: func() []string { return nil }, OwnStoreIsSilent: func() bool { return false },
		ID: id, Log: log, Store: store, Ledger: evidence.NewMemoryLedger(),
		Seen: func(time.Duration, int64) {}, Button: button,
		CheckStores: func(context.Context) error { return nil },
	})
	f.Replan(&Plan{Policies: []*Policy{p}}, func() {})
	return f, p
}

// trackedOf is a policy of a fingerprint that no request has reached.
func policyOf(policy, fingerprint string) *Policy {
	return &Policy{
		Spec:     stages.Spec{Policy: policy, Fingerprint: fingerprint, Config: stages.Config{}.WithDefaults()},
		Compared: true, Stage: stages.NewCurrent(), Recorder: evidence.NewRecorder(nil), FellBack: func() bool { return false },
	}
}

// enforced returns the side that requests of a key get.
func (p *Policy) enforced(at evidence.Position) algorithms.Role {
	return p.Stage.Enforced(p.Spec.Fingerprint, at)
}

func TestCutOffCanaryReturnsToTheAuthoritative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &cuttable{Store: stages.NewMemoryStore()}
		f, p := instanceOn(store, "a")
		defer f.Close(ctx)
		step := func(to stages.Step) {
			if _, err := stages.Advance(ctx, store, "p", to, stages.Order{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for the notification
		}

		check := func(when string, want algorithms.Role) {
			t.Helper()
			if got := p.enforced(at(0)); got != want {
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
		f, p := instanceOn(remembered, "a")
		defer f.Close(ctx)
		if _, err := stages.Rollback(ctx, remembered, "p", stages.Order{Reason: "bad"}); err != nil {
			t.Fatal(err)
		}

		synctest.Wait()
		f.poller.polling.Lock()
		forgetful := stages.NewMemoryStore() // the replica that took over
		if err := stages.Begin(ctx, forgetful, "p", "e", 0, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := stages.Advance(ctx, forgetful, "p", stages.Step{Stage: stages.Promoted}, stages.Order{}); err != nil {
			t.Fatal(err)
		}

		f.Store = forgetful
		f.poller.polling.Unlock()
		time.Sleep(3 * time.Second)
		states, err := forgetful.States(ctx, []string{"p"})
		if err != nil || states[0].Stage != stages.RolledBack || !states[0].Hold {
			t.Errorf("the store has %+v, %v, want the rollback again", states, err)
		}
		if got := p.enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("the %s is enforced", got)
		}
	})
}

func TestInstancesStartWithoutTheirStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &cuttable{Store: stages.NewMemoryStore()}
		store.cut.Store(true)
		f, p := instanceOn(store, "a")
		defer f.Close(ctx)
		if got := p.enforced(at(0)); got != algorithms.Authoritative {
			t.Errorf("the %s is enforced", got)
		}

		store.cut.Store(false)
		time.Sleep(3 * time.Second)
		if s := p.Stage.State(); s.Fingerprint != "e" || s.Stage != stages.Shadow {
			t.Errorf("once the store answers the state is %+v", s)
		}
	})
}

// An instance that started without its store has never seen a verdict. That it shows no alarm must not look like calm.
func TestMetricsOfTheFleetNeedAVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policyOf("p", "e")
		p.memory = &memory{started: time.Now()}
		if p.Latest() != noAssessment {
			t.Error("an instance that has just started leaves the fleet's metrics out")
		}

		time.Sleep(oldAfter)
		if p.Latest() != nil {
			t.Error("after a minute without a verdict the fleet's metrics are still there")
		}
	})
}
