package promotion

import (
	"context"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// alarms finds out what is wrong with an enforced candidate. Requires c.mu.
func (c *Controller) alarms(ctx context.Context, a *Assessment) {
	minutes := a.Evidence.History.Minutes
	a.alarm, a.Alarm = guard(a.Spec.Config, minutes, a.Evidence.Now.Unix()/60)
	if a.State.Stage == Canary {
		a.Prediction = predict(a.Evidence.History.Hours, a.State.Percent, a.State.StageAt.Unix()/3600)
	}
	l, err := c.last(ctx, a.Spec, a.State, minutes, a.Evidence.Now)
	if err != nil {
		return // the evidence as a whole cannot be read either, and says so
	}
	a.Harm = harmScore(l.ticks, a.Spec.Config.NewlyDenied, l.now)
	if reason := l.triggers(); reason != "" && a.alarm != rollBack {
		a.alarm, a.Alarm = rollBack, reason
	}
}

// harmTicks is how far back the score of harmed clients looks.
const harmTicks = 3 * divergence.FreshTicks

// stageIsUsual is after how long a stage itself tells what is usual: the ledger forgets
// what was before it, and a candidate may stay promoted for months.
const stageIsUsual = 7 * 24 * time.Hour

// last reads the last minutes of a policy.
func (c *Controller) last(ctx context.Context, spec Spec, s State, minutes []divergence.Minute, now time.Time) (*last, error) {
	from := now.Add(-harmTicks * divergence.TickSeconds * time.Second)
	ticks, err := c.ledger.Ticks(ctx, s.LedgerID(spec.Policy), from.Unix()/divergence.BucketSeconds, now.Unix()/divergence.BucketSeconds)
	began := max(s.StageAt.Unix(), now.Add(-stageIsUsual).Unix())
	return &last{cfg: spec.Config, ticks: ticks, now: now.Unix() / divergence.TickSeconds, minutes: minutes, from: began / 60}, err
}

// Guard looks at the last minutes of the candidates that are enforced, and rolls back
// those of automatic policies that do harm: between two Steps, for that cannot wait.
// It looks at the policies that were assessed before.
func (c *Controller) Guard(ctx context.Context) ([]Move, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for policy, r := range c.readers {
		if r.spec.Config.Automatic {
			names = append(names, policy)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	states, err := c.store.States(ctx, names)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var moves []Move
	var failed []error
	for i, policy := range names {
		s, r := states[i], c.readers[policy]
		if !s.Exposed() || s.Epoch != r.epoch {
			continue
		}
		l, err := c.last(ctx, r.spec, s, r.minutes, now)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if reason := l.triggers(); reason != "" {
			state, err := Rollback(ctx, c.store, policy, Order{Actor: c.actor, Reason: reason, Expect: &s.Version})
			switch {
			case err == nil:
				moves = append(moves, Move{policy, state})
			case !errors.Is(err, ErrConflict): // else it is another state's business now
				failed = append(failed, err)
			}
		}
	}
	return moves, errors.Join(failed...)
}
