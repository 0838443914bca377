package stages

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Of many fingerprints the last 16 are remembered, and those longest that were rolled back or completed.
func TestPastIsBounded(t *testing.T) {
	s := State{Version: Version{1, 1}, Stage: Shadow, Fingerprint: "first"}
	for n := range 100 {
		s.Stage = Stages[n%len(Stages)]
		before := s.Past
		next := replacedBy(s, fmt.Sprint("f", n), int64(n), Order{}, time.Unix(int64(n), 0))
		if len(before) > 0 && before[0].Fingerprint != s.Past[0].Fingerprint {
			t.Fatal("a state has changed the list of the one before")
		}
		s = next
	}
	kept := [3]int{}
	for _, p := range s.Past {
		kept[worth(p.Stage)]++
	}
	if len(s.Past) != keptPast || kept[2] < keptPast-1 || s.Past[len(s.Past)-2].Fingerprint < s.Past[0].Fingerprint {
		t.Errorf("%d are remembered, of each worth %v: %v", len(s.Past), kept, s.Past)
	}
}

// An operator's hold is about the policy, and goes over to the next fingerprint. That of a rollback does not.
func TestHoldOfTheNextFingerprint(t *testing.T) {
	for stage, want := range map[Stage]bool{Shadow: true, RolledBack: false} {
		s := State{Version: Version{1, 1}, Stage: stage, Fingerprint: "e", Hold: true}
		if next := replacedBy(s, "f", 0, Order{}, time.Unix(1, 0)); next.Hold != want || next.Stage != Shadow || !next.past("e").Hold {
			t.Errorf("after %s: %+v", s, next)
		}
	}
	next := replacedBy(stateOf("1.3 what cannot be read"), "f", 0, Order{}, time.Unix(1, 0))
	if next.Stage != RolledBack || !next.Hold || next.Version != (Version{1, 4}) || len(next.Past) != 0 {
		t.Errorf("after a state that cannot be read: %+v", next)
	}
}

// The order of a red button rolls back what it was pressed against, and nothing that came
// later.
func TestOrderOfARedButton(t *testing.T) {
	press := Press{Fingerprint: "A", Term: 1}
	at := func(term int64, stage Stage, fingerprint string, past ...Past) State {
		return State{
			Version: Version{Term: term, Seq: 3}, Stage: stage, Percent: 10, Fingerprint: fingerprint, Hold: stage == RolledBack, Past: past,
		}
	}
	for _, tt := range []struct {
		name   string
		stored State
		stage  Stage
		moves  bool
		of     Stage // what the order's fingerprint has then
		void   bool
	}{
		{"promoted", at(1, Promoted, "A"), RolledBack, true, RolledBack, false},
		{"canary", at(1, Canary, "A"), RolledBack, true, RolledBack, false},
		{"completed", at(1, Completed, "A"), RolledBack, true, RolledBack, false},
		{"shadow", at(1, Shadow, "A"), Shadow, false, Shadow, false},
		{"rolled back", at(2, RolledBack, "A"), RolledBack, false, RolledBack, false},
		{"rolled back and resumed since", at(2, Canary, "A"), Canary, false, Canary, true},
		{"another one is stored", at(1, Promoted, "B"), Promoted, true, RolledBack, false},
		{"another one is stored in a later term", at(2, Canary, "B"), Canary, true, RolledBack, false},
		{"another one, and this was completed", at(1, Shadow, "B", Past{Fingerprint: "A", Stage: Completed, Term: 1}), Shadow, true, RolledBack, false},
		{"another one, and this was completed after a rollback", at(2, Shadow, "B", Past{Fingerprint: "A", Stage: Completed, Term: 2}),
			Shadow, false, Completed, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := NewMemoryStore()
			if err := store.Put(t.Context(), "p", tt.stored, Condition{}); err != nil {
				t.Fatal(err)
			}
			if moves := press.Moves(&tt.stored); moves != tt.moves || press.Void(&tt.stored) != tt.void {
				t.Errorf("moves: %t, void: %t", moves, press.Void(&tt.stored))
			}

			for range 2 { // of two instances
				s, err := press.CarryOut(t.Context(), store, "p", Order{Actor: "red button"})
				if err != nil || s.Stage != tt.stage || s.Of("A") != tt.of || (s.Term > tt.stored.Term) != (tt.moves && tt.stored.Fingerprint == "A") {
					t.Errorf("%s, past %v, %v", s, s.Past, err)
				}
			}
			if history, _ := store.History(t.Context(), "p"); len(history) > 2 {
				t.Errorf("the order is on record %d times", len(history)-1)
			}
		})
	}
}

// moving is a store whose policy moves after it was read for the first time.
type moving struct {
	Store
	move func()
}

func (m *moving) Heartbeat(ctx context.Context, h Heartbeat) (Heard, error) {
	heard, err := m.Store.Heartbeat(ctx, h)
	if m.move != nil {
		m.move()
		m.move = nil
	}
	return heard, err
}

// An order rolls back the state that was looked at: a fingerprint that takes over meanwhile is not
// what the button was pressed against.
func TestOrderRollsBackWhatItHasSeen(t *testing.T) {
	store := &moving{Store: NewMemoryStore()}
	put := func(seq int64, fingerprint string) {
		s := State{Version: Version{Term: 1, Seq: seq}, Stage: Promoted, Fingerprint: fingerprint}
		if err := store.Put(t.Context(), "p", s, Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	put(2, "A")
	store.move = func() { put(3, "B") }

	s, err := Press{"A", 1}.CarryOut(t.Context(), store, "p", Order{Actor: "red button"})
	if err != nil || s.Stage != Promoted || s.Fingerprint != "B" || s.Of("A") != RolledBack {
		t.Errorf("%s of %s, past %v, %v, want B promoted and A rolled back", s, s.Fingerprint, s.Past, err)
	}
}

// What ended a promotion is known as long as the promotion would return.
func TestUndone(t *testing.T) {
	at := time.Date(2026, 11, 27, 21, 59, 0, 0, time.UTC)
	promoted := State{Version: Version{1, 2}, Stage: Promoted, Percent: 100, Fingerprint: "A"}
	undone := replacedBy(promoted, "B", 0, Order{Actor: "leader a"}, at)
	if u := undone.Undone(); u == nil || u.Stage != Promoted || u.Fingerprint != "A" || !u.Left.Equal(at) || u.By != "leader a" {
		t.Errorf("%+v", u)
	}
	if again := replacedBy(undone, "C", 0, Order{}, at); again.Undone() == nil || again.Undone().Fingerprint != "A" {
		t.Errorf("after one more file: %+v", again.Undone())
	}
	rolledBack := rolledBack(undone, Order{}, at)
	for name, s := range map[string]State{
		"promoted": promoted, "returned": replacedBy(undone, "A", 0, Order{}, at), "rolled back": rolledBack, "resumed": resumed(rolledBack, Order{}, at),
	} {
		if u := s.Undone(); u != nil {
			t.Errorf("%s: %+v", name, u)
		}
	}
}
