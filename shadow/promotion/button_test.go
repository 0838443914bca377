package promotion_test

import (
	"context"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// The order of a red button rolls back what it was pressed against, and nothing that came
// later.
func TestOrderOfARedButton(t *testing.T) {
	const pressed = "A" // epoch; the term is 1
	at := func(term int64, stage promotion.Stage, epoch string) promotion.State {
		return promotion.State{
			Version: promotion.Version{Term: term, Seq: 3}, Stage: stage, Percent: 10, Epoch: epoch, Hold: stage == promotion.RolledBack,
		}
	}
	for _, tt := range []struct {
		name   string
		stored promotion.State
		stage  promotion.Stage
		term   int64
		failed bool // the epoch of the order is on the list
	}{
		{"promoted", at(1, promotion.Promoted, "A"), promotion.RolledBack, 2, true},
		{"canary", at(1, promotion.Canary, "A"), promotion.RolledBack, 2, true},
		{"completed", at(1, promotion.Completed, "A"), promotion.RolledBack, 2, true},
		{"shadow", at(1, promotion.Shadow, "A"), promotion.Shadow, 1, false},
		{"rolled back", at(2, promotion.RolledBack, "A"), promotion.RolledBack, 2, false},
		{"rolled back and resumed since", at(2, promotion.Canary, "A"), promotion.Canary, 2, false},
		{"moved to another epoch", at(1, promotion.Promoted, "B"), promotion.Promoted, 1, true},
		{"in a later term moved to another epoch", at(2, promotion.Canary, "B"), promotion.Canary, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := promotion.NewMemoryStore()
			if err := store.Put(t.Context(), "p", tt.stored, promotion.Condition{}); err != nil {
				t.Fatal(err)
			}

			for range 2 { // of two instances
				s, err := promotion.RollbackOf(t.Context(), store, "p", pressed, 1, promotion.Order{Actor: "red button"})
				if err != nil || s.Stage != tt.stage || s.Term != tt.term || (s.EndedAs(pressed) == promotion.RolledBack) != tt.failed {
					t.Errorf("%s, ended %v, %v", s, s.Ended, err)
				}
			}
			history, _ := store.History(t.Context(), "p")
			if most := 2; len(history) > most {
				t.Errorf("the order is on record %d times", len(history)-1)
			}
		})
	}
}

// moving is a store whose policy moves when it is read for the second time.
type moving struct {
	promotion.Store
	reads int
	move  func()
}

func (m *moving) States(ctx context.Context, policies []string) ([]promotion.State, error) {
	if m.reads++; m.reads == 2 {
		m.move()
	}
	return m.Store.States(ctx, policies)
}

// An order rolls back the state that was looked at: an epoch that takes over meanwhile is not
// what the button was pressed against.
func TestOrderRollsBackWhatItHasSeen(t *testing.T) {
	store := &moving{Store: promotion.NewMemoryStore()}
	put := func(seq int64, epoch string) {
		s := promotion.State{Version: promotion.Version{Term: 1, Seq: seq}, Stage: promotion.Promoted, Epoch: epoch}
		if err := store.Put(t.Context(), "p", s, promotion.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	put(2, "A")
	store.move = func() { put(3, "B") }

	s, err := promotion.RollbackOf(t.Context(), store, "p", "A", 1, promotion.Order{Actor: "red button"})
	if err != nil || s.Stage != promotion.Promoted || s.Epoch != "B" || s.EndedAs("A") != promotion.RolledBack {
		t.Errorf("%s of %s, ended %v, %v, want B promoted and A ended", s, s.Epoch, s.Ended, err)
	}
}
