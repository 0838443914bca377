package promotion

import (
	"context"
	"errors"
	"time"
)

// EnsureRollback stores a rollback again that a failover may have lost, and returns the
// state that stands for it. Ordered is when it was requested, by the store's clock. Call
// it until every instance reports the returned state.
//
// A failover can lose the rollback in two ways. The store may have forgotten it, perhaps
// before any instance heard of it: then it is stored again. Or the store has forgotten
// states before the order as well, and an instance asserts a state that supersedes the
// rollback: then evidence that began no later than the order is rolled back once more. A
// policy that an operator resumed after the order is left alone.
func EnsureRollback(
	ctx context.Context, store Store, policy string, s State, ordered time.Time, o Order,
) (State, error) {
	states, err := store.States(ctx, []string{policy})
	if err != nil {
		return s, err
	}

	stored := states[0]
	switch {
	case s.Supersedes(stored):
		// A conflict means that another writer was faster; the next call looks again.
		if err := store.Put(ctx, policy, s, Condition{}); err != nil && !errors.Is(err, ErrConflict) {
			return s, err
		}

	// A resumption begins the evidence again, so that it is later than the order.
	case stored.Stage != RolledBack && !stored.Since.After(ordered):
		next, err := Rollback(ctx, store, policy, o)
		if err != nil {
			return s, err
		}
		return next, nil
	}
	return s, nil
}
