package promotion

import (
	"context"
	"errors"
	"time"
)

// Begin puts the first state of a policy, in shadow, if the store has none. Where another
// epoch is stored, the votes of the instances decide; see Teller.
func Begin(ctx context.Context, store Store, policy, epoch, actor string) error {
	states, err := store.States(ctx, []string{policy})
	if err != nil || states[0].Stage != "" {
		return err
	}

	s := states[0]
	next, err := s.next(ctx, store, Order{Actor: actor, Reason: "compares epoch " + epoch})
	if err != nil {
		return err
	}
	next.Version = Version{1, 1}
	next.Stage, next.StageAt = Shadow, next.At
	next.Epoch, next.Since = epoch, next.At

	// On a conflict another instance has begun, which is as good.
	if err := store.Put(ctx, policy, next, Condition{Expect: &s}); !errors.Is(err, ErrConflict) {
		return err
	}
	return nil
}

// claim is why an epoch takes over from the stored one.
type claim struct {
	epoch      string
	generation int64
	actor      string
	reason     string
	asOf       time.Time // when the votes were counted
}

// takeOver puts another epoch in place of the stored one. It begins in shadow, unless it
// has a past: an epoch that failed is rolled back, one that was completed is completed, and
// one that was displaced within the last hour is where it was. A rollback of the stored
// epoch stays: a deployment is no operator's word that all is well.
func takeOver(ctx context.Context, store Store, policy string, s State, c claim) (State, error) {
	next, err := s.next(ctx, store, Order{Actor: c.actor, Reason: c.reason})
	if err != nil {
		return s, err
	}
	past := s.recall(c.epoch, next.At)

	// A state that could not be read may have no term. Terms begin with 1.
	next.Term = max(1, next.Term)
	next.Epoch, next.Generation = c.epoch, c.generation
	next.Since, next.StageAt = next.At, next.At
	next.recover() // the health was another candidate's
	next.place(s, past)
	next.displace(s)
	return next, store.Put(ctx, policy, next, Condition{Expect: &s, AsOf: c.asOf})
}

// place sets the stage in which an epoch takes over from another state.
func (s *State) place(before, past State) {
	ended := s.EndedAs(s.Epoch)
	switch {
	case ended == RolledBack:
		s.rollBack()
	case ended == Completed:
		s.Stage, s.Percent = Completed, 100
	case past.Stage != "":
		s.Stage, s.Percent, s.Since = past.Stage, past.Percent, past.Since
		s.Hold = s.Hold || past.Hold
	case before.Stage != RolledBack:
		s.Stage, s.Percent = Shadow, 0
	default:
		s.StageAt = before.StageAt
	}
}

// recall returns how far an epoch was before another one took over, if it may return there
// at an instant: within the hour, and in the same term, because a rollback since then is
// about the epoch that was there as well. The zero State says that it may not.
func (s *State) recall(epoch string, now time.Time) State {
	for _, d := range s.Displaced {
		if d.Epoch == epoch {
			return d.state(s.Term, now)
		}
	}
	return State{}
}

// state returns the state to which a displaced epoch may return, or the zero State.
func (d Displaced) state(term int64, now time.Time) State {
	if d.Term != term || !within(now, d.At, returnFor) {
		return State{}
	}
	return State{Stage: d.Stage, Percent: d.Percent, Since: d.Since, Hold: d.Hold, Epoch: d.Epoch}
}

// EndEpoch puts an epoch on the list of rolled back ones, and moves nothing: it
// is for a rollback that comes after another epoch has taken over. When the epoch is
// deployed once more, it is rolled back.
func EndEpoch(ctx context.Context, store Store, policy, epoch string, o Order) (State, error) {
	var s State
	var err error
	for range rollbackTries {
		s, err = change(ctx, store, policy, o, func(s *State) error {
			if s.EndedAs(epoch) == RolledBack {
				return errEnded
			}
			s.end(epoch, RolledBack)
			return nil
		})

		// Only a lost race is tried again.
		if errors.Is(err, errEnded) {
			return s, nil
		}
		if !errors.Is(err, ErrConflict) {
			return s, err
		}
	}
	return s, err
}

var errEnded = errors.New("the epoch has ended already")
