package promotion

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

func TestTriggersMoveBetweenSteps(t *testing.T) {
	store, ledger := NewMemoryStore(), divergence.NewMemoryLedger()
	ctx := t.Context()
	spec := Spec{Policy: "p", Epoch: "e", Config: Config{Automatic: true, Config: gate.Config{NewlyDenied: 0.001}}.WithDefaults()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(Begin(ctx, store, "p", "e", "test"))
	must(store.Announce(ctx, []Spec{spec}))
	state, err := Advance(ctx, store, "p", Step{Canary, 10}, Order{})
	must(err)
	c := NewController(store, ledger, "test")
	if _, err := c.Assess(ctx); err != nil {
		t.Fatal(err)
	}
	check := func() []Move {
		t.Helper()
		moves, err := c.CheckTriggers(ctx)
		must(err)
		return moves
	}
	if moves := check(); moves != nil {
		t.Errorf("without any harm: %v", moves)
	}
	before := time.Now().Unix()/divergence.TickSeconds - 1
	must(ledger.Write(ctx, state.LedgerID("p"), "a", &divergence.Snapshot{Ticks: []divergence.Tick{{Unix: before, Tally: divergence.Tally{divergence.NewlyDenied: 9}, Harmed: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}}}}))
	if moves := check(); len(moves) != 1 || moves[0].State.Stage != RolledBack || !strings.Contains(moves[0].State.Reason, "harmed clients: 9 newly denied keys") {
		t.Errorf("nine harmed clients: %v", moves)
	}
	if moves := check(); moves != nil {
		t.Errorf("rolled back already: %v", moves)
	}
}

// A prediction that is off stops an automatic canary once. Who resumes that can take the
// next step, which no controller does.
func TestPredictionThatIsOffHoldsOnce(t *testing.T) {
	store, ctx := NewMemoryStore(), t.Context()
	c := NewController(store, divergence.NewMemoryLedger(), "controller")
	moved := func(s State, err error) State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	moved(State{}, Begin(ctx, store, "p", "e", "test"))
	off := &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
	act := func(s State) (State, bool) {
		t.Helper()
		a := Assessment{Spec: Spec{Policy: "p", Config: Config{Automatic: true}.WithDefaults()}, State: s, Prediction: off, Gate: gate.Result{Verdict: gate.Pass}}
		a.Evidence.Now = s.StageAt.Add(2 * time.Hour)
		next, changed, err := c.act(ctx, &a)
		return moved(next, err), changed
	}
	held, changed := act(moved(Advance(ctx, store, "p", Step{Canary, 10}, Order{})))
	if !changed || !held.Hold || held.Reason != off.String() {
		t.Fatalf("not held: %+v", held)
	}
	resumed, err := Resume(ctx, store, "p", Order{Actor: "a person"})
	if s, changed := act(moved(resumed, err)); changed {
		t.Errorf("moved again, to %s, after a person has resumed it", s)
	}
	if s, err := Advance(ctx, store, "p", Step{Canary, 50}, Order{Expect: &resumed.Version}); err != nil || s.Percent != 50 {
		t.Errorf("the next step by force: %s, %v", s, err)
	}
}
