package stages

import (
	"context"
	"errors"
	"time"
)

// Press is the order of a red button: the fingerprint of the instance, and the term that it knew.
type Press struct {
	Fingerprint string `json:"fingerprint"`
	Term        int64  `json:"term"`
}

// Void reports whether the order is answered for good: its fingerprint was rolled back and resumed since.
func (p Press) Void(s *State) bool {
	switch {
	case s.Of(p.Fingerprint) == RolledBack:
		return false
	case s.Fingerprint == p.Fingerprint:
		return s.Term > p.Term
	}
	return s.past(p.Fingerprint).Term > p.Term
}

// Moves reports whether there is anything to store for the order in a state.
func (p Press) Moves(s *State) bool {
	_, moves := pressed(*s, p, Order{}, time.Time{})
	return moves
}

// pressed returns the state that carries an order out, and whether it is another one. A fingerprint in
// shadow has nothing to be rolled back, and keeps its evidence.
func pressed(s State, p Press, o Order, now time.Time) (State, bool) {
	switch {
	case s.Stage == "" || p.Void(&s) || s.Of(p.Fingerprint) == RolledBack:
		return s, false
	case s.Fingerprint == p.Fingerprint:
		return rolledBack(s, o, now), s.Stage != Shadow
	}

	// Only a rollback of the stored fingerprint begins a term: it must not be beaten by the order for another one.
	next := following(s, o, now)
	remember(&next, Past{Fingerprint: p.Fingerprint, Stage: RolledBack, Hold: true, Since: now, Term: s.Term})
	return next, true
}

// CarryOut stores what a red button has ordered, once, whatever the number of instances that have the order and of
// calls. It returns the state that stands.
func (p Press) CarryOut(ctx context.Context, store Store, policy string, o Order) (s State, err error) {
	for range tries {
		var now time.Time
		if s, now, err = current(ctx, store, policy); err != nil {
			return s, err
		}
		next, changes := pressed(s, p, o, now)
		if !changes {
			return s, nil
		}

		// The order is about the state that was looked at. If it has moved, look again.
		if err = store.Put(ctx, policy, next, Condition{Expect: &s}); !errors.Is(err, ErrConflict) {
			return next, err
		}
	}
	return s, err
}
