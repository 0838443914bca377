package stages

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

const (
	// A candidate that is unwell for longer than unwellFor is rolled back the timesUnwell-th time within unwellWithin.
	unwellWithin = 24 * time.Hour
	timesUnwell  = 3
	unwellFor    = time.Minute
	// calmFor is how long the candidate must be well before a hold for its health ends.
	calmFor = time.Hour
)

// respond answers an alarm, and reports whether it has moved the policy.
func respond(ctx context.Context, store Store, policy string, s State, alarm gate.Alarm, o Order) (State, bool, error) {
	// A rollback passes a hold. A milder answer to an alarm is a hold, so a policy that has one
	// stays.
	o.Reason = alarm.Reason
	switch {
	case alarm.Level == gate.RollBack:
		return rollBack(ctx, store, policy, o)
	case alarm.Level == gate.Calm:
		return s, false, nil
	case alarm.Health && unwellAgain(s, o.AsOf):
		o.Reason += "; it has been so for over a minute for the third time in the last 24 h"
		return rollBack(ctx, store, policy, o)
	case s.Hold:
		return s, false, nil
	case alarm.Health:
		return holdForHealth(ctx, store, policy, o)
	}
	state, err := Pause(ctx, store, policy, o)
	return state, err == nil, err
}

// holdForHealth sets a policy on hold until its candidate is well. No client is harmed while the authoritative stands in, so
// it may wait.
func holdForHealth(ctx context.Context, store Store, policy string, o Order) (State, bool, error) {
	state, err := change(ctx, store, policy, o, func(s *State) error {
		if s.Hold {
			return fmt.Errorf("stages: %s: %w already", policy, ErrHold)
		}
		s.Hold, s.HeldForHealth = true, true
		s.Unwell = append(unwellSince(*s, s.At.Add(-unwellWithin)), s.At)
		return nil
	})
	return state, err == nil, err
}

// unwellSince returns the holds for health since an instant, in a list of its own.
func unwellSince(s State, at time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(s.Unwell), func(held time.Time) bool { return held.Before(at) })
}

// heldAt returns when the hold for health began.
func heldAt(s State) time.Time { return s.Unwell[len(s.Unwell)-1] }

// unwellAgain reports whether a candidate that is unwell at an instant has been so for too long, too often.
func unwellAgain(s State, now time.Time) bool {
	return s.HeldForHealth && len(unwellSince(s, now.Add(-unwellWithin))) >= timesUnwell && now.Sub(heldAt(s)) > unwellFor
}

// recovers reports whether a hold for health is to end at an instant.
func recovers(s State, well bool, now time.Time) bool {
	return well && s.HeldForHealth && len(s.Unwell) > 0 && now.Sub(heldAt(s)) >= calmFor
}

func endHold(ctx context.Context, store Store, policy string, o Order) (State, error) {
	o.Reason = "the candidate has been well for an hour, so its hold ends by itself"
	return change(ctx, store, policy, o, func(s *State) error {
		// A candidate that was well again within a minute does not count as unwell.
		if n := len(s.Unwell) - 1; n >= 0 && s.At.Sub(s.Unwell[n]) <= calmFor+unwellFor {
			s.Unwell = slices.Clone(s.Unwell[:n])
		}
		s.Hold, s.HeldForHealth = false, false
		return nil
	})
}

// rollBack rolls a policy back, and reports whether it was not rolled back before: of two
// controllers that see the same harm, one moves.
func rollBack(ctx context.Context, store Store, policy string, o Order) (State, bool, error) {
	s, err := Rollback(ctx, store, policy, o)
	return s, err == nil && s.Actor == o.Actor, err
}
