package promotion

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const (
	// unwellWithin is the time in which a candidate may be put on hold for its health
	// timesUnwell times; the next time it is rolled back.
	unwellWithin = 24 * time.Hour
	timesUnwell  = 2
	// calmFor is how long the candidate must be well before such a hold ends.
	calmFor = time.Hour
)

func (c *Controller) respond(ctx context.Context, policy string, s State, alarm gate.Alarm, o Order) (State, bool, error) {
	// A rollback passes a hold. A milder answer to an alarm is a hold, so a policy that has one
	// stays.
	o.Reason = alarm.Reason
	switch {
	case alarm.Level == gate.RollBack:
		return c.rollBack(ctx, policy, o)
	case alarm.Level == gate.Calm || s.Hold:
		return s, false, nil
	case alarm.Health:
		return c.holdForHealth(ctx, policy, s, o)
	}
	state, err := Pause(ctx, c.store, policy, o)
	return state, err == nil, err
}

// holdForHealth sets a policy on hold until its candidate is well. No client is harmed while
// the authoritative stands in, so it may wait; but a candidate that is unwell again and again
// is rolled back.
func (c *Controller) holdForHealth(ctx context.Context, policy string, s State, o Order) (State, bool, error) {
	_, now, err := current(ctx, c.store, policy)
	if err != nil {
		return s, false, err
	}
	before := s.unwellSince(now.Add(-unwellWithin))
	if len(before) >= timesUnwell {
		o.Reason += fmt.Sprintf("; it was put on hold for its health %d times in the last 24 h", len(before))
		return c.rollBack(ctx, policy, o)
	}

	state, err := change(ctx, c.store, policy, o, func(s *State) error {
		if s.Hold {
			return fmt.Errorf("promotion: %s: %w already", policy, ErrHold)
		}
		s.Hold, s.HeldForHealth = true, true
		s.Unwell = append(before, s.At)
		return nil
	})
	return state, err == nil, err
}

// unwellSince returns the holds for health since an instant, in a list of its own.
func (s State) unwellSince(at time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(s.Unwell), func(held time.Time) bool { return held.Before(at) })
}

// recovers reports whether a hold for health is to end at an instant.
func (s State) recovers(well bool, now time.Time) bool {
	return well && s.HeldForHealth && len(s.Unwell) > 0 && now.Sub(s.Unwell[len(s.Unwell)-1]) >= calmFor
}

func endHold(ctx context.Context, store Store, policy string, o Order) (State, error) {
	o.Reason = "the candidate has been well for an hour, so its hold ends by itself"
	return change(ctx, store, policy, o, func(s *State) error {
		s.Hold, s.HeldForHealth = false, false
		return nil
	})
}
