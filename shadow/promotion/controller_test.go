package promotion

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

func TestTriggersMoveBetweenSteps(t *testing.T) {
	store, ledger := NewMemoryStore(), divergence.NewMemoryLedger()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// An automatic policy with a canary, which a controller has assessed once.
	cfg := Config{Automatic: true, Config: gate.Config{NewlyDenied: 0.001}}.WithDefaults()
	must(Begin(ctx, store, "p", "e", "test"))
	must(store.Announce(ctx, []Spec{{Policy: "p", Epoch: "e", Config: cfg}}))
	state, err := Advance(ctx, store, "p", Step{Canary, 10}, Order{})
	must(err)
	c := NewController(store, ledger, "test")
	_, err = c.Assess(ctx)
	must(err)

	check := func() []Move {
		t.Helper()
		moves, err := c.CheckTriggers(ctx)
		must(err)
		return moves
	}
	if moves := check(); moves != nil {
		t.Errorf("without any harm: %v", moves)
	}

	harm := divergence.Tick{
		Unix:   time.Now().Unix()/divergence.TickSeconds - 1,
		Tally:  divergence.Tally{divergence.NewlyDenied: 9},
		Harmed: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9},
	}
	must(ledger.Write(ctx, state.LedgerID("p"), "a", &divergence.Snapshot{Ticks: []divergence.Tick{harm}}))
	const reason = "harmed clients: 9 newly denied keys"
	moves := check()
	if len(moves) != 1 || moves[0].State.Stage != RolledBack || !strings.Contains(moves[0].State.Reason, reason) {
		t.Errorf("nine harmed clients: %v", moves)
	}

	if moves := check(); moves != nil {
		t.Errorf("rolled back already: %v", moves)
	}

	// An operator who resumes and promotes begins new evidence. The harm of before is not in it.
	_, err = Resume(ctx, store, "p", Order{Force: true})
	must(err)
	_, err = Advance(ctx, store, "p", Step{Canary, 10}, Order{})
	must(err)
	if moves := check(); moves != nil {
		t.Errorf("the harm of before the resumption: %v", moves)
	}
}

// A prediction that is off stops an automatic canary once. An operator who resumes it can
// take the next step, and no controller does.
func TestPredictionThatIsOffHoldsOnce(t *testing.T) { synctest.Test(t, predictionHoldsOnce) }

func predictionHoldsOnce(t *testing.T) {
	store, ctx := NewMemoryStore(), t.Context()
	c := NewController(store, divergence.NewMemoryLedger(), "controller")
	off := &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
	moved := func(s State, err error) State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	act := func(s State) (State, bool) {
		t.Helper()
		a := Assessment{
			Spec:  Spec{Policy: "p", Config: Config{Automatic: true}.WithDefaults()},
			State: s, Prediction: off, Gate: gate.Result{Verdict: gate.Pass},
		}
		time.Sleep(2 * time.Hour)
		a.Evidence.Now = time.Now()
		next, changed, err := c.act(ctx, &a)
		return moved(next, err), changed
	}
	moved(State{}, Begin(ctx, store, "p", "e", "test"))

	held, changed := act(moved(Advance(ctx, store, "p", Step{Canary, 10}, Order{})))
	if !changed || !held.Hold || held.Reason != off.String() {
		t.Fatalf("not held: %+v", held)
	}

	resumed, err := Resume(ctx, store, "p", Order{Actor: "an operator"})
	if s, changed := act(moved(resumed, err)); changed {
		t.Errorf("moved again, to %s, after an operator has resumed it", s)
	}
	s, err := Advance(ctx, store, "p", Step{Canary, 50}, Order{Expect: &resumed.Version})
	if err != nil || s.Percent != 50 {
		t.Errorf("the next step by force: %s, %v", s, err)
	}
}
