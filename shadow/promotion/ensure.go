package promotion

import (
	"context"
	"errors"
	"time"
)

// Insist keeps a rollback that was ordered by an instant, of the store's clock, from
// being lost, and returns the state that stands for it. Who ordered it calls this
// again and again until every instance has applied that.
//
// A store that has forgotten the rollback in a failover, maybe before any instance
// heard of it, is told again. A failover may also have forgotten so much before the
// order that an instance still has a state over the rollback and asserts it: what
// began no later than the order, and is no longer rolled back, is rolled back anew. A
// policy that somebody has resumed after the order is left alone.
func Insist(ctx context.Context, store Store, policy string, s State, ordered time.Time, o Order) (State, error) {
	states, err := store.States(ctx, []string{policy})
	if err != nil {
		return s, err
	}
	stored := states[0]
	switch {
	case s.Supersedes(stored):
		if err := store.Put(ctx, policy, s, nil); err != nil && !errors.Is(err, ErrConflict) {
			return s, err
		}
	case stored.Stage != RolledBack && !stored.Since.After(ordered): // a resumption begins the evidence anew
		next, err := Rollback(ctx, store, policy, o)
		if err != nil {
			return s, err
		}
		return next, nil
	}
	return s, nil
}
