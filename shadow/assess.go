package shadow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// round judges the policies whose turn is this instance's: in full every assessEvery, and by their
// triggers in between. It reads what the judges of the others have published.
func (f *fleet) round(ctx context.Context) error {
	turns, err := f.turns(ctx)
	if err != nil {
		return err
	}
	var full, fast []string
	for _, m := range turns {
		// A bit less than the whole time, which is a multiple of that between two rounds.
		if m.progress.judging.judged.within(assessEvery - flushEvery/2) {
			fast = append(fast, m.spec.Policy)
		} else {
			full = append(full, m.spec.Policy)
		}
	}

	// A stage that does harm is left before others are judged.
	f.controller.ForgetExcept(append(slices.Clone(full), fast...))
	failed := []error{f.checkTriggers(ctx, fast)}
	if len(full) > 0 {
		failed = append(failed, f.assess(ctx, full))
	}
	return errors.Join(append(failed, f.readPublished(ctx, turns))...)
}

// assess judges the policies of these names, or all without a name, moves the automatic ones, and
// publishes what it has found. Two instances may do so at once: each move is a compare-and-set.
func (f *fleet) assess(ctx context.Context, policies []string) error {
	list, moves, err := f.controller.Step(ctx, policies...)
	f.logMoves(moves)

	// A policy without an assessment keeps its last one, which soon counts as old.
	var forgotten []*migration
	var publish []promotion.Published
	for _, m := range f.migrations() {
		i := slices.IndexFunc(list, func(a promotion.Assessment) bool { return a.Spec.Policy == m.spec.Policy })
		judges := len(policies) == 0 || slices.Contains(policies, m.spec.Policy)
		unknown := judges && i < 0
		ofAnother := judges && i >= 0 && !m.differs() && list[i].Spec.Epoch != m.spec.Epoch
		if unknown || ofAnother {
			forgotten = append(forgotten, m)
		}

		if i >= 0 {
			m.progress.judging.judged.note()
			f.keep(m, &assessment{&list[i], time.Now()})
			f.markDeployment(m, &list[i])
			publish = append(publish, f.published(ctx, m, &list[i]))
		}
	}
	if len(publish) > 0 {
		err = errors.Join(err, f.noteJudged(ctx, publish))
	}

	// A store that has lost its data does not know the policies any more. Where no instance of the
	// stored epoch is left, any announcement is better than none: no command would know the policy.
	// After an error the list may be empty for another reason, and nothing may be concluded from it.
	if err == nil && len(forgotten) > 0 {
		err = f.announce(ctx, forgotten)
	}
	return err
}

// markDeployment marks the evidence while instances compare something else: a record has room for
// two sides, and theirs displace this policy's.
func (f *fleet) markDeployment(m *migration, a *promotion.Assessment) {
	if len(a.Evidence.OtherEpoch) > 0 && !m.differs() {
		m.progress.recorder.Mark(f.view.now())
	}
}

// detailsEvery is how often the details of an assessment are published: they grow with the history,
// and are of hours and days.
const detailsEvery = time.Minute

// published is what the others learn of an assessment.
func (f *fleet) published(ctx context.Context, m *migration, a *promotion.Assessment) promotion.Published {
	p := a.Publish(f.id)
	if !m.progress.judging.detailed.renew(detailsEvery) {
		return p
	}
	if d, err := status.DetailsOf(ctx, f.ledger, a); err == nil {
		p.Details = &d
	}
	return p
}

// noteJudged publishes assessments. One that is too late for that was made by an instance that was
// stopped in between: another one judges by now.
func (f *fleet) noteJudged(ctx context.Context, list []promotion.Published) error {
	oldest := list[0].Evidence.Now
	err := f.store.NoteJudged(ctx, promotion.Judgement{At: oldest, By: f.id}, list)
	if errors.Is(err, promotion.ErrStale) {
		return nil
	}
	return err
}

// readPublished reads every assessEvery what others have found of the policies that are not this
// instance's turn.
func (f *fleet) readPublished(ctx context.Context, turns []*migration) error {
	if !f.read.renew(assessEvery - flushEvery/2) {
		return nil
	}
	others := slices.DeleteFunc(f.migrations(), func(m *migration) bool { return slices.Contains(turns, m) })
	list, err := f.store.Assessments(ctx, namesOf(others))
	if err != nil {
		return err
	}

	for n, m := range others {
		state := *m.progress.stage.state.Load()
		if p := &list[n]; p.Of(&state) {
			a := p.Assessment(m.spec, state)
			age := f.view.now().Sub(a.Evidence.Now).Abs() // either clock may have stepped
			f.keep(m, &assessment{&a, time.Now().Add(-age)})
		}
	}
	return nil
}

func namesOf(migrations []*migration) (names []string) {
	for _, m := range migrations {
		names = append(names, m.spec.Policy)
	}
	return names
}

// checkTriggers rolls back candidates that do harm. It reads ticks only, and so costs much
// less than an assessment.
func (f *fleet) checkTriggers(ctx context.Context, policies []string) error {
	if len(policies) == 0 {
		return nil
	}
	now := f.view.now()
	moves, err := f.controller.CheckTriggers(ctx, policies...)
	f.logMoves(moves)
	if err != nil || f.alone {
		return err
	}

	looked := make([]promotion.Published, len(policies))
	for n, policy := range policies {
		looked[n].Policy, looked[n].Evidence.Now = policy, now
	}
	return f.noteJudged(ctx, looked)
}

// logMoves logs the steps of this instance's controller.
func (f *fleet) logMoves(moves []promotion.Move) {
	for _, move := range moves {
		f.log.Info("shadowlimit: moved", "policy", move.Policy,
			"to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// keep keeps the assessment of a policy, and logs an alarm that an operator has to act on.
// An alarm that goes on is logged once. In automatic mode the controller acts on it, and
// the move is logged instead.
func (f *fleet) keep(m *migration, a *assessment) {
	before := m.progress.judging.assessment.Swap(a)
	known := before != nil && before.Alarm.Reason != ""
	if a.Alarm.Reason == "" || known || a.Spec.Config.Automatic {
		return
	}
	f.log.Warn("shadowlimit: the candidate does harm, and stays as it is because the mode is manual; "+
		"unless the alarm is expected, run the command behind next in shadowlimit status",
		"policy", m.spec.Policy, "stage", a.State.Describe(), "alarm", a.Alarm.Reason)
}
