package stages

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

func TestTriggersMoveBetweenSteps(t *testing.T) {
	store, ledger := NewMemoryStore(), evidence.NewMemoryLedger()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// An automatic policy with a canary, which a controller has assessed once.
	cfg := Config{Automatic: true, Config: gate.Config{NewlyDenied: 0.001}}.WithDefaults()
	must(Begin(ctx, store, "p", "e", 0, "test"))
	_, err := store.Heartbeat(ctx, Heartbeat{Specs: []Spec{{Policy: "p", Fingerprint: "e", Config: cfg}}})
	must(err)
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

	harm := evidence.Tick{
		Unix:   time.Now().Unix()/evidence.TickSeconds - 1,
		Tally:  evidence.Tally{evidence.NewlyDenied: 9},
		Harmed: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9},
	}
	_, err = ledger.Add(ctx, state.LedgerID("p"), batchOf("a", harm))
	must(err)
	const reason = "harmed clients: 9 newly denied keys"
	moves := check()
	if len(moves) != 1 || moves[0].State.Stage != RolledBack || !strings.Contains(moves[0].State.Reason, reason) {
		t.Errorf("nine harmed clients: %v", moves)
	}

	if moves := check(); moves != nil {
		t.Errorf("rolled back already: %v", moves)
	}

	// An operator who resumes and promotes begins new evidence. The harm of before is not in it.
	_, err = Resume(ctx, store, "p", Order{})
	must(err)
	_, err = Advance(ctx, store, "p", Step{Canary, 10}, Order{})
	must(err)
	if moves := check(); moves != nil {
		t.Errorf("the harm of before the resumption: %v", moves)
	}
}
