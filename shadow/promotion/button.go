package promotion

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrPressed is wrapped when a red button is pressed on a live instance.
var ErrPressed = errors.New("the red button is pressed")

// RollbackOf carries out the order of a red button, which names the epoch and the term that
// its instance knew when the button was pressed. The order may come late, after an outage:
//
//   - The same epoch in that term or an earlier one is rolled back, if its candidate is
//     enforced for any key. In shadow there is nothing to roll back, and the evidence is kept.
//   - The same epoch in a later term has been rolled back and resumed since: an operator has
//     decided already, and the order changes nothing.
//   - Another epoch is not what the button was pressed against. The order's epoch is put on the
//     list of failed ones, and the policy does not move.
//
// The order is stored once, whatever the number of instances that have it and of calls. It
// returns the state that stands.
func RollbackOf(ctx context.Context, store Store, policy string, epoch string, term int64, o Order) (State, error) {
	var s State
	var err error
	for range rollbackTries {
		if s, err = current(ctx, store, policy); err != nil {
			return s, err
		}

		switch {
		case s.Epoch != epoch:
			return EndEpoch(ctx, store, policy, epoch, o)
		case s.Term > term || !s.Exposed() && s.Stage != Completed:
			return s, nil
		}

		// The rollback is of the state that was looked at. If it has moved, look again.
		o.Expect = &s.Version
		if s, err = Rollback(ctx, store, policy, o); !errors.Is(err, ErrConflict) {
			return s, err
		}
	}
	return s, err
}

// checkReleased refuses a move while a red button is pressed: the instance enforces the
// authoritative whatever the move says, and its operator may not know of the move.
func checkReleased(ctx context.Context, store Store, policy string) error {
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	all, err := store.Instances(ctx)
	if err != nil {
		return err
	}

	live, _ := LiveAt(now, policy, all)
	if pressed := idsOf(live, func(i Instance) bool { return i.RedButton }); len(pressed) > 0 {
		return fmt.Errorf("promotion: %s: %w on %s: release it there first", policy, ErrPressed, strings.Join(pressed, ", "))
	}
	return nil
}
