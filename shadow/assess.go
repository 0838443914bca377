package shadow

import (
	"context"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// assess judges all policies, moves the automatic ones, and keeps the assessments
// for metrics and the status page. Every instance does so: controllers need no leader,
// because each of their steps is a compare-and-set.
func (f *fleet) assess(ctx context.Context) error {
	list, moves, err := f.controller.Step(ctx)
	f.logMoves(moves)

	// These two need no assessment, so they go on after an error, too.
	f.countLive(ctx)
	f.holdOverloaded(ctx)

	// A policy without an assessment keeps its last one, which soon counts as old.
	var forgotten []*migration
	for _, m := range f.migrations() {
		i := slices.IndexFunc(list, func(a promotion.Assessment) bool { return a.Spec.Policy == m.spec.Policy })
		if !m.differs() && (i < 0 || list[i].Spec.Epoch != m.spec.Epoch) {
			forgotten = append(forgotten, m)
		}
		if i >= 0 {
			f.keep(m, &list[i])
		}
	}

	// A store that has lost its data does not know the policies any more, and an instance of
	// an earlier release announces another epoch than the stored one. After an error the list
	// may be empty for another reason, and nothing may be concluded from it.
	if err == nil && len(forgotten) > 0 {
		err = f.announce(ctx, forgotten)
	}
	return err
}

// countLive notes how many instances share the limits where a store fails. If that is not
// known, the last number stands: a store that is silent is no sign that the others have
// gone, and a smaller number would let every instance allow more.
func (f *fleet) countLive(ctx context.Context) {
	all, err := f.store.Instances(ctx)
	if err != nil {
		return
	}

	// This instance is live even if its own beat is not stored yet, and limits are divided
	// by this number, which must not be zero.
	live, _ := promotion.LiveAt(f.view.now(), "", all)
	f.view.live.Store(int64(max(1, len(live))))
}

// checkTriggers rolls back candidates that do harm. It reads ticks only, and so costs much
// less than an assessment.
func (f *fleet) checkTriggers(ctx context.Context) error {
	moves, err := f.controller.CheckTriggers(ctx)
	f.logMoves(moves)
	return err
}

// logMoves logs the steps of this instance's controller.
func (f *fleet) logMoves(moves []promotion.Move) {
	for _, move := range moves {
		f.log.Info("shadowlimit: moved", "policy", move.Policy,
			"to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// holdOverloaded puts policies beyond shadow on hold whose two sides go on being too much
// for their store: each step forward would make it worse. One slow moment does not.
func (f *fleet) holdOverloaded(ctx context.Context) {
	for _, m := range f.migrations() {
		s, store := m.stage.state.Load(), m.sides[algorithms.Candidate].store
		if !s.Exposed() || s.Hold || !m.judgedTogether() || !store.remote() || !store.overloadLasts() {
			continue
		}

		// The order is for the state that was checked. If it has moved since, this fails,
		// and the next round looks at the new one.
		order := promotion.Order{
			Actor: "instance " + f.id, Expect: &s.Version,
			Reason: "scripts time out, or the store is busy or out of memory, for over 30 s: judging both sides may be too much for it",
		}
		if held, err := promotion.Pause(ctx, f.store, m.spec.Policy, order); err == nil {
			f.log.Warn("shadowlimit: on hold", "policy", m.spec.Policy, "stage", held.Describe(), "reason", held.Reason)
		}
	}
}

// keep keeps the assessment of a policy, and logs an alarm that an operator has to act on.
// An alarm that goes on is logged once. In automatic mode the controller acts on it, and
// the move is logged instead.
func (f *fleet) keep(m *migration, a *promotion.Assessment) {
	before := m.assessment.Swap(&assessment{a, time.Now()})
	known := before != nil && before.Alarm.Reason != ""
	if a.Alarm.Reason == "" || known || a.Spec.Config.Automatic {
		return
	}
	f.log.Warn("shadowlimit: the candidate does harm, and is not rolled back because the mode is manual; "+
		"run shadowlimit rollback unless the alarm is expected",
		"policy", m.spec.Policy, "stage", a.State.Describe(), "alarm", a.Alarm.Reason)
}
