package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Errors of moves that are refused.
var (
	// ErrHold is wrapped when a policy is on hold.
	ErrHold = errors.New("the policy is on hold")
	// ErrNowhere is wrapped when a state has no such step.
	ErrNowhere = errors.New("no such step")
	// ErrFollowed is wrapped where another program enforces, whose log is followed.
	ErrFollowed = errors.New("another program enforces, and shadowlimit follows its log")
	// ErrPressed is wrapped when a red button is pressed on a live instance.
	ErrPressed = errors.New("the red button is pressed")
)

// Order is a request to move a policy, with its actor and reason for the audit trail.
type Order struct {
	Actor, Reason string
	// Expect, if set, is the version that the actor has seen; any other is a conflict.
	Expect *Version
	// Judged, if set, is the state that the move was decided for. A store that has lost its data may
	// have another one of the same version.
	Judged *State
	// Evidence is the gate's verdict in short, for the audit trail. AsOf is its instant, if
	// the move depends on it; see Condition.
	Evidence string
	AsOf     time.Time
	// DryRun returns the resulting state and stores nothing.
	DryRun bool
}

// Forced begins the evidence of a step that no gate has allowed.
const Forced = "forced: "

// RedButtonActor begins the actor of an order that a red button has given; the instance's id follows.
const RedButtonActor = "red button of "

// Expects refuses a state that is not the expected one.
func (o *Order) Expects(policy string, s State) error {
	if o.Judged != nil && !o.Judged.is(s) {
		return fmt.Errorf("stages: %s is no more at the %s that was looked at: %w", policy, o.Judged.Version, ErrConflict)
	}
	if o.Expect != nil && *o.Expect != s.Version {
		return fmt.Errorf("stages: %s is at %s, not %s: %w", policy, s.Version, o.Expect, ErrConflict)
	}
	return nil
}

// Step is a stage to move to.
type Step struct {
	Stage   Stage
	Percent float64 // of a canary
}

func (s Step) asked() gate.Step {
	if s.Stage == Promoted {
		return gate.Step{Name: string(Promoted), Percent: 100}
	}
	return gate.Step{Name: fmt.Sprintf("%s %g %%", s.Stage, s.Percent), Percent: s.Percent}
}

// StepAfter returns the step that a verdict in a state is for: the next one, or after the last
// one the end of the migration, for all keys.
func StepAfter(s State, canary []float64) gate.Step {
	to, err := s.Next(canary)
	switch {
	case err == nil:
		return to.asked()
	case s.Stage == RolledBack:
		return firstStep(canary)
	}
	return gate.Step{Name: string(Completed), Percent: 100}
}

// firstStep returns the first step of a migration, as the gate names it.
func firstStep(canary []float64) gate.Step {
	to, _ := State{Stage: Shadow}.Next(canary) // shadow always has a next step
	return to.asked()
}

// Steps returns all steps of a migration until the candidate is promoted, as the gate names them.
func Steps(canary []float64) (list []gate.Step) {
	for _, percent := range canary {
		list = append(list, Step{Stage: Canary, Percent: percent}.asked())
	}
	return append(list, Step{Stage: Promoted}.asked())
}

// change reads a policy's state, lets edit change the one that follows, and stores the result unless
// another writer was faster.
func change(ctx context.Context, store Store, policy string, o Order, edit func(*State) error) (State, error) {
	s, now, err := current(ctx, store, policy)
	if err != nil {
		return s, err
	}
	if err := o.Expects(policy, s); err != nil {
		return s, err
	}
	next := following(s, o, now)
	if err := edit(&next); err != nil {
		return s, err
	}
	if next.Stage != s.Stage || next.Percent != s.Percent {
		next.StageAt = next.At
	}
	return next, o.put(ctx, store, policy, s, next)
}

// put stores a state in place of the one that was read.
func (o *Order) put(ctx context.Context, store Store, policy string, read, next State) error {
	if o.DryRun {
		return nil
	}
	return store.Put(ctx, policy, next, Condition{Expect: &read, AsOf: o.AsOf})
}

// current returns the state of a policy, and the store's clock.
func current(ctx context.Context, store Store, policy string) (State, time.Time, error) {
	h, err := store.Heartbeat(ctx, Heartbeat{Policies: []string{policy}})
	switch {
	case err != nil:
		return State{}, h.Now, err
	case len(h.States) != 1 || h.States[0].Stage == "":
		return State{}, h.Now, fmt.Errorf("stages: %s: %w", policy, ErrUnknownPolicy)
	}
	return h.States[0], h.Now, nil
}

const (
	// unknownFor is how long a rollback waits for a policy that the store does not have. A
	// store that has lost its data, or a replica that had none, gets the states again from
	// the instances' next heartbeats, and their connections may have to be restored first.
	unknownFor = 5 * time.Second
	askAgain   = 50 * time.Millisecond
)

// awaitState is current for a policy that the store may have just lost, while instances enforce its candidate: it
// is asked for again until unknownFor has passed or ctx is over.
func awaitState(ctx context.Context, store Store, policy string) (State, time.Time, error) {
	patience, cancel := context.WithTimeout(ctx, unknownFor)
	defer cancel()
	for {
		s, now, err := current(ctx, store, policy)
		if !errors.Is(err, ErrUnknownPolicy) {
			return s, now, err
		}
		select {
		case <-time.After(askAgain):
		case <-patience.Done():
			return s, now, err
		}
	}
}

// Begin puts the first state of a policy, in shadow, if the store has none. Where another
// fingerprint is stored, the leader decides.
func Begin(ctx context.Context, store Store, policy, fingerprint string, generation int64, actor string) error {
	return BeginAt(ctx, store, policy, fingerprint, generation, actor, time.Time{})
}

// BeginAt is Begin for evidence that begins at an earlier instant, as that of a log does; the zero instant is now.
func BeginAt(ctx context.Context, store Store, policy, fingerprint string, generation int64, actor string, since time.Time) error {
	s, now, err := current(ctx, store, policy)
	if !errors.Is(err, ErrUnknownPolicy) {
		return err
	}

	// On a conflict another instance has begun, which is as good.
	next := first(fingerprint, generation, Order{Actor: actor, Reason: "fingerprint " + fingerprint + " is the first"}, now)
	if !since.IsZero() {
		next.Since = since
	}
	if err := store.Put(ctx, policy, next, Condition{Expect: &s}); !errors.Is(err, ErrConflict) {
		return err
	}
	return nil
}

// Advance moves a policy forward to a step and returns its state. It does not ask
// the gate.
func Advance(ctx context.Context, store Store, policy string, to Step, o Order) (State, error) {
	return change(ctx, store, policy, o, func(s *State) error {
		switch {
		case to.Stage != Promoted && !(to.Stage == Canary && to.Percent > 0 && to.Percent <= 100):
			return fmt.Errorf("stages: step to %s at %g %%: %w", to.Stage, to.Percent, ErrNowhere)
		// A conflict and no error of its own: another writer took this step first.
		case to.Stage == s.Stage && (to.Stage == Promoted || to.Percent == s.Percent):
			return fmt.Errorf("stages: %s is at %s already: %w", policy, s.Describe(), ErrConflict)
		case s.Hold:
			return fmt.Errorf("stages: %s: %w", policy, ErrHold)
		case s.Stage == RolledBack:
			return fmt.Errorf("stages: %s is rolled back, resume it first: %w", policy, ErrNowhere)
		case s.Stage == Promoted || s.Stage == Completed:
			return fmt.Errorf("stages: %s is %s, and there is no step forward after that: %w",
				policy, s.Stage, ErrNowhere)
		case to.Stage == Canary && to.Percent <= s.Percent:
			return fmt.Errorf("stages: %s is at %s, and there is no way back but a rollback: %w",
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
			return fmt.Errorf("stages: %s is %s, and only a promoted policy can be completed: %w",
				policy, s.Describe(), ErrNowhere)
		case s.Hold:
			return fmt.Errorf("stages: %s: %w", policy, ErrHold)
		}

		s.Stage = Completed
		return nil
	})
}

// Pause sets a policy on hold.
func Pause(ctx context.Context, store Store, policy string, o Order) (State, error) {
	return change(ctx, store, policy, o, func(s *State) error {
		// A hold that would end by itself becomes one that does not.
		if s.Hold && !s.HeldForHealth {
			return fmt.Errorf("stages: %s: %w already", policy, ErrHold)
		}
		s.Hold, s.HeldForHealth = true, false
		return nil
	})
}

// Resume ends a hold. A policy that was rolled back returns to shadow with no evidence. It is refused while a
// red button is pressed: the instance enforces the authoritative whatever the state says, and its operator may not know
// of the move.
func Resume(ctx context.Context, store Store, policy string, o Order) (State, error) {
	f, err := store.Fleet(ctx)
	if err != nil {
		return State{}, err
	}
	live, _ := f.With(policy)
	if pressed := idsOf(live, func(i Instance) bool { return i.RedButton }); len(pressed) > 0 {
		return State{}, fmt.Errorf("stages: %s: %w on %s: release it there first", policy, ErrPressed, strings.Join(pressed, ", "))
	}

	s, now, err := current(ctx, store, policy)
	if err == nil {
		err = o.Expects(policy, s)
	}
	switch {
	case err != nil:
		return s, err
	case !s.Hold:
		return s, fmt.Errorf("stages: %s is not on hold: %w", policy, ErrNowhere)
	}
	next := resumed(s, o, now)
	return next, o.put(ctx, store, policy, s, next)
}

// tries bounds the race of a move that must succeed against other writers.
const tries = 10

// Rollback returns a policy to its authoritative side, whatever its state, and
// sets it on hold. It wins over every concurrent move, because it starts a new term.
// A policy that is rolled back already stays as it is. A policy that the store does not
// have is waited for: for up to 5 s, because instances restore what a store has lost.
func Rollback(ctx context.Context, store Store, policy string, o Order) (State, error) {
	var err error
	for try := range tries {
		var s State
		var now time.Time
		if s, now, err = awaitState(ctx, store, policy); err != nil {
			return s, err
		}
		done := s.Stage == RolledBack && s.Hold && !s.Unreadable()
		if done && try > 0 { // by this order, or by another one that has won the race
			return s, nil
		}
		if err = o.Expects(policy, s); err != nil || done {
			return s, err
		}
		next := rolledBack(s, o, now)
		if o.DryRun {
			return next, nil
		}

		// Compare-and-set keeps a concurrent write, such as a new fingerprint. After five lost races any state that this one
		// supersedes may be replaced.
		only := Condition{Expect: &s, AsOf: o.AsOf}
		if try >= tries/2 {
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

// Adopt stores the fingerprint of a live instance; "" is the only one that is not stored. It takes the largest generation
// that is alive, so that no other one takes it back at once.
func Adopt(ctx context.Context, store Store, policy, fingerprint string, o Order) (State, error) {
	f, err := store.Fleet(ctx)
	if err != nil {
		return State{}, err
	}
	s, now, err := current(ctx, store, policy)
	if err == nil {
		err = o.Expects(policy, s)
	}
	if err != nil {
		return s, err
	}

	var others []string
	generation := s.Generation
	live, _ := f.With(policy)
	for _, i := range live {
		generation = max(generation, i.Generation)
		if other := i.Policies[policy].Fingerprint; other != s.Fingerprint && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	if fingerprint == "" && len(others) == 1 {
		fingerprint = others[0]
	}
	switch {
	case len(others) == 0:
		return s, fmt.Errorf("stages: %s: every live instance has %s, which is stored: %w", policy, s.Fingerprint, ErrNowhere)
	case fingerprint == "":
		return s, fmt.Errorf("stages: %s: live instances have %s: name one: %w", policy, strings.Join(others, ", "), ErrNowhere)
	case !slices.Contains(others, fingerprint):
		return s, fmt.Errorf("stages: %s: no live instance has %s, but %s: %w", policy, fingerprint, strings.Join(others, ", "), ErrNowhere)
	}
	next := replacedBy(s, fingerprint, generation, o, now)
	return next, o.put(ctx, store, policy, s, next)
}
