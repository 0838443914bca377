package stages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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

// nodeLedger is a ledger of which a part hangs, as that of a cluster with a node that does: all but the evidence of one policy.
type nodeLedger struct {
	evidence.Ledger
	hangs  bool
	except string
}

func (l *nodeLedger) Slots(ctx context.Context, id evidence.ID, from, since int64) ([]evidence.Slot, int64, error) {
	if l.hangs && id.Policy != l.except {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return nil, 0, errors.New("i/o timeout")
	}
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	return l.Ledger.Slots(ctx, id, from, since)
}

// Evidence that takes all of a turn's time and is not read takes none of the policies whose evidence can be read: harm is
// answered as soon as the leader knows which ones hang.
func TestHarmIsAnsweredBesideEvidenceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ledger := NewMemoryStore(), &nodeLedger{Ledger: evidence.NewMemoryLedger(), except: "p15"}
		cfg := Config{Automatic: true, Config: gate.Config{NewlyDenied: 0.001}}.WithDefaults()
		var state State
		for n := range 30 {
			policy := fmt.Sprint("p", n)
			begun := Begin(t.Context(), store, policy, "e", 0, "test")
			_, announced := store.Heartbeat(t.Context(), Heartbeat{Specs: []Spec{{Policy: policy, Fingerprint: "e", Config: cfg}}})
			s, err := Advance(t.Context(), store, policy, Step{Canary, 10}, Order{})
			if err := errors.Join(begun, announced, err); err != nil {
				t.Fatal(err)
			}
			if policy == ledger.except {
				state = s
			}
		}
		c := NewController(store, ledger, "test")
		turn := func() (moves []Move) {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			moves, _ = c.CheckTriggers(ctx) // most evidence cannot be read
			_, more, _ := c.Step(ctx)
			return append(moves, more...)
		}
		turn()

		ledger.hangs = true
		for range 12 {
			turn()
		}
		harm := evidence.Tick{
			Unix:   time.Now().Unix()/evidence.TickSeconds - 1,
			Tally:  evidence.Tally{evidence.NewlyDenied: 9},
			Harmed: []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9},
		}
		if _, err := ledger.Add(t.Context(), state.LedgerID(ledger.except), batchOf("a", harm)); err != nil {
			t.Fatal(err)
		}
		if moves := turn(); len(moves) != 1 || moves[0].Policy != ledger.except || moves[0].State.Stage != RolledBack {
			t.Errorf("%v, want a rollback of %s", moves, ledger.except)
		}
	})
}
