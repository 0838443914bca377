package promotion

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of moves that are refused.
var (
	// ErrHold is wrapped when a policy is on hold.
	ErrHold = errors.New("the policy is on hold")
	// ErrSameEpoch is wrapped when the epoch that was rolled back would be tried again.
	ErrSameEpoch = errors.New("the epoch is the one that was rolled back")
	// ErrNowhere is wrapped when a state has no such step.
	ErrNowhere = errors.New("no such step")
)

// Order is a request to move a policy, with its actor and reason for the audit trail.
type Order struct {
	Actor, Reason string
	// Expect, if set, is the version that the actor has seen; any other is a conflict.
	Expect *Version
	// Force resumes an epoch that was rolled back.
	Force bool
	// Evidence is the gate's verdict in short, for the audit trail. AsOf is its instant, if
	// the move depends on it; see Condition.
	Evidence string
	AsOf     time.Time
	// DryRun returns the resulting state and stores nothing.
	DryRun bool
}

// expects refuses a state that is not the expected one.
func (o *Order) expects(policy string, s State) error {
	if o.Expect != nil && *o.Expect != s.Version {
		return fmt.Errorf("promotion: %s is at %s, not %s: %w", policy, s.Version, o.Expect, ErrConflict)
	}
	return nil
}

// Step is a stage to move to.
type Step struct {
	Stage   Stage
	Percent float64 // of a canary
}

// Next returns the step after a state: the canary's rising percentages, then promoted.
func (s State) Next(canary []float64) (Step, error) {
	switch s.Stage {
	case Promoted:
		return Step{}, fmt.Errorf("promotion: the candidate is promoted; the next move is complete: %w", ErrNowhere)
	case Completed:
		return Step{}, fmt.Errorf("promotion: the migration is completed: %w", ErrNowhere)
	case RolledBack:
		return Step{}, fmt.Errorf("promotion: the candidate is rolled back; shadowlimit resume begins again: %w", ErrNowhere)
	}

	for _, percent := range canary {
		if percent > s.Percent {
			return Step{Canary, percent}, nil
		}
	}
	return Step{Stage: Promoted}, nil
}

// next returns the state after this one, with the order on record and the same stage.
func (s State) next(ctx context.Context, store Store, o Order) (State, error) {
	now, err := store.Now(ctx)
	next := s
	next.Seq++
	next.At = now
	next.Actor, next.Reason, next.Evidence = o.Actor, o.Reason, o.Evidence
	next.From = s.Describe()
	return next, err
}

// change reads a policy's state, lets edit change it, and stores the result unless
// another writer was faster.
func change(ctx context.Context, store Store, policy string, o Order, edit func(*State) error) (State, error) {
	s, err := current(ctx, store, policy)
	if err != nil {
		return s, err
	}
	if err := o.expects(policy, s); err != nil {
		return s, err
	}

	next, err := s.next(ctx, store, o)
	if err != nil {
		return s, err
	}
	if err := edit(&next); err != nil {
		return s, err
	}
	if next.Stage != s.Stage || next.Percent != s.Percent {
		next.StageAt = next.At
	}

	if o.DryRun {
		return next, nil
	}
	return next, store.Put(ctx, policy, next, Condition{Expect: &s, AsOf: o.AsOf})
}

func current(ctx context.Context, store Store, policy string) (State, error) {
	states, err := store.States(ctx, []string{policy})
	if err != nil {
		return State{}, err
	}
	if states[0].Stage == "" {
		return State{}, fmt.Errorf("promotion: %s: %w", policy, ErrUnknownPolicy)
	}
	return states[0], nil
}

// Advance moves a policy forward to a step and returns its state. It does not ask
// the gate.
func Advance(ctx context.Context, store Store, policy string, to Step, o Order) (State, error) {
	return change(ctx, store, policy, o, func(s *State) error {
		switch {
		case to.Stage != Promoted && !(to.Stage == Canary && to.Percent > 0 && to.Percent <= 100):
			return fmt.Errorf("promotion: step to %s at %g %%: %w", to.Stage, to.Percent, ErrNowhere)
		// A conflict and no error of its own: another writer took this step first.
		case to.Stage == s.Stage && (to.Stage == Promoted || to.Percent == s.Percent):
			return fmt.Errorf("promotion: %s is at %s already: %w", policy, s.Describe(), ErrConflict)
		case s.Hold:
			return fmt.Errorf("promotion: %s: %w", policy, ErrHold)
		case s.Stage == RolledBack:
			return fmt.Errorf("promotion: %s is rolled back, resume it first: %w", policy, ErrNowhere)
		case s.Stage == Promoted || s.Stage == Completed:
			return fmt.Errorf("promotion: %s is %s, and there is no step forward after that: %w",
				policy, s.Stage, ErrNowhere)
		case to.Stage == Canary && to.Percent <= s.Percent:
			return fmt.Errorf("promotion: %s is at %s, and there is no way back but a rollback: %w",
				policy, s.Describe(), ErrNowhere)
		}

		s.Stage, s.Percent = to.Stage, to.Percent
		if to.Stage == Promoted {
			s.Percent = 100
		}
		return nil
	})
}

// RollbackWindow is how long the authoritative goes on counting after a promotion, so
// that a rollback gives no client a fresh budget.
const RollbackWindow = 7 * 24 * time.Hour

// Complete ends a migration: the authoritative is not judged any more, so a rollback
// later would find it cold, with full budgets. The policy must be promoted; callers check
// RollbackWindow.
func Complete(ctx context.Context, store Store, policy string, o Order) (State, error) {
	return change(ctx, store, policy, o, func(s *State) error {
		switch {
		case s.Stage != Promoted:
			return fmt.Errorf("promotion: %s is %s, and only a promoted policy can be completed: %w",
				policy, s.Describe(), ErrNowhere)
		case s.Hold:
			return fmt.Errorf("promotion: %s: %w", policy, ErrHold)
		}

		s.Stage = Completed
		s.end(s.Epoch, Completed)
		return nil
	})
}

// Pause sets a policy on hold.
func Pause(ctx context.Context, store Store, policy string, o Order) (State, error) {
	return change(ctx, store, policy, o, func(s *State) error {
		// A hold that would end by itself becomes one that does not.
		if s.Hold && !s.HeldForHealth {
			return fmt.Errorf("promotion: %s: %w already", policy, ErrHold)
		}
		s.Hold, s.HeldForHealth = true, false
		return nil
	})
}

// Resume ends a hold. A policy that was rolled back returns to shadow with no evidence,
// if another epoch is compared now or by force.
func Resume(ctx context.Context, store Store, policy string, o Order) (State, error) {
	if err := checkReleased(ctx, store, policy); err != nil {
		return State{}, err
	}
	return change(ctx, store, policy, o, func(s *State) error {
		if !s.Hold {
			return fmt.Errorf("promotion: %s is not on hold: %w", policy, ErrNowhere)
		}
		s.Hold, s.HeldForHealth = false, false
		if s.Stage != RolledBack {
			return nil
		}

		if s.Failed() && !o.Force {
			return fmt.Errorf("promotion: %s: %w", policy, ErrSameEpoch)
		}

		// By force the epoch gets another chance, and a restart does not roll it back again.
		// The other epochs that failed stay on the list.
		s.revive(s.Epoch)
		s.Stage, s.Percent, s.Since = Shadow, 0, s.At
		return nil
	})
}

// rollbackTries bounds the race of a move that must succeed against other writers.
const rollbackTries = 10

// Rollback returns a policy to its authoritative side, whatever its state, and
// sets it on hold. It wins over every concurrent move, because it starts a new term.
// A policy that is rolled back already stays as it is. A policy that the store does not
// have is waited for: for up to 5 s, because instances restore what a store has lost.
func Rollback(ctx context.Context, store Store, policy string, o Order) (State, error) {
	var err error
	for try := range rollbackTries {
		var s, next State
		if s, err = awaitState(ctx, store, policy); err != nil || s.Stage == RolledBack && s.Hold {
			return s, err
		}
		if err = o.expects(policy, s); err != nil {
			return s, err
		}

		if next, err = s.next(ctx, store, o); err != nil {
			return s, err
		}
		next.Version = Version{s.Term + 1, 1}
		next.rollBack()
		next.end(s.Epoch, RolledBack)
		if o.DryRun {
			return next, nil
		}

		// Compare-and-set keeps a concurrent write, such as a new epoch. After five lost races any state that this one
		// supersedes may be replaced.
		only := Condition{Expect: &s, AsOf: o.AsOf}
		if try >= rollbackTries/2 {
			only.Expect = nil
		}

		// After another error the rollback may be stored. The next turn reads the state, and returns
		// the rollback if it finds it.
		err = store.Put(ctx, policy, next, only)
		if !errors.Is(err, ErrConflict) && (err == nil || only.Expect == nil) {
			return next, err
		}
	}
	return State{}, err
}

// rollBack makes a stage of the state that only an operator ends.
func (s *State) rollBack() {
	s.Stage, s.Percent, s.Hold, s.HeldForHealth = RolledBack, 0, true, false
	s.Unwell = nil
	s.StageAt = s.At
}
