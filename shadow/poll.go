package shadow

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// knowledge says which states of the store this instance knows: those from when the number of
// changes was this one. The zero value says that the states must be read.
type knowledge struct {
	changes int64
	at      time.Time
}

// readAgainAfter is how long an instance goes by the number of changes alone. Every way in which a
// state is put without it is repaired by the teller; this is for a way that is not known.
const readAgainAfter = 5 * time.Minute

// poll applies newer states, writes the applied ones where the store has forgotten them,
// and tells the fleet that this instance is there. It reads states only if they may have
// changed.
func (f *fleet) poll(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	defer f.noteApplied()

	// A state that was applied just now may be newer than the number, and a failover may take back
	// both: it is read once more, and written again if it is gone. The same holds for restored states.
	before := appliedOf(f.migrations())
	err := f.pollLocked(ctx)
	f.noteTrouble(ctx, err)
	if !slices.Equal(before, appliedOf(f.migrations())) {
		f.knows = knowledge{}
	}
	return err
}

// noteTrouble keeps the error of a poll for the status page. A poll that was cut short says nothing of the store.
func (f *fleet) noteTrouble(ctx context.Context, err error) {
	switch {
	case err == nil:
		f.trouble.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled):
		f.trouble.Store(&err)
	}
}

// readAgain lets the next poll read all states, and beat.
func (f *fleet) readAgain() {
	f.polling.Lock()
	defer f.polling.Unlock()
	f.knows = knowledge{}
	f.beaten.clear()
}

func (f *fleet) pollLocked(ctx context.Context) error {
	migrations := f.migrations()

	// Reading comes first: that works even where nothing can be written. The number is read before
	// the states: a state that is put in between is read twice, and not never.
	changes, err := f.store.Changes(ctx)
	if err != nil {
		return err
	}
	var failed []error
	if f.mayHaveChanged(changes) {
		f.knows = knowledge{}
		states, err := f.applyStates(ctx, migrations)
		if err != nil {
			return err
		}
		restored, err := f.restore(ctx, migrations, states)
		if err == nil && !restored {
			f.knows = knowledge{changes, time.Now()}
		}
		failed = append(failed, err)
	}
	f.heard.note()
	for _, m := range migrations {
		m.progress.stage.heard.note()
	}

	// The beat goes on where nothing can be written: the fleet must not lose sight of an
	// instance because one policy's state is refused.
	failed = append(failed, f.storeOrders(ctx), f.announceOwn(ctx, migrations), f.beat(ctx, migrations))
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return f.handOver(ctx, migrations)
}

// appliedOf returns the states that migrations have applied, each by its place in memory.
func appliedOf(migrations []*migration) (list []*promotion.State) {
	for _, m := range migrations {
		list = append(list, m.progress.stage.state.Load())
	}
	return list
}

// mayHaveChanged reports whether a state may have changed since they were read. The number of changes
// says so while a teller looks after it. Requires polling.
func (f *fleet) mayHaveChanged(changes int64) bool {
	return changes == 0 || changes != f.knows.changes || time.Since(f.knows.at) > readAgainAfter ||
		!f.told.within(promotion.LiveFor)
}

// restore writes what the store lacks, and reports whether that was anything. What this instance
// knows comes before what it would begin: after a loss of data the policy goes on where it was.
func (f *fleet) restore(ctx context.Context, migrations []*migration, states []promotion.State) (bool, error) {
	reasserted, err := f.reassert(ctx, migrations, states)
	failed := []error{err}
	begun, err := f.begin(ctx, migrations)
	failed = append(failed, err)
	if begun {
		_, err = f.applyStates(ctx, migrations)
		failed = append(failed, err)
	}
	return reasserted || begun, errors.Join(failed...)
}

func (f *fleet) applyStates(ctx context.Context, migrations []*migration) ([]promotion.State, error) {
	names := make([]string, len(migrations))
	for i, m := range migrations {
		names[i] = m.spec.Policy
	}

	states, err := f.store.States(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, m := range migrations {
		m.leaveDisk(states[i])
		m.apply(states[i])
		m.noteEpoch(f.file)
	}
	return states, nil
}

// reassert writes what the store has forgotten, as it may after a failover, and reports whether it had.
func (f *fleet) reassert(ctx context.Context, migrations []*migration, states []promotion.State) (forgotten bool, err error) {
	for i, m := range migrations {
		applied := *m.progress.stage.state.Load()
		if applied.Epoch == "" || !applied.Supersedes(states[i]) {
			continue
		}
		forgotten = true
		if states[i].Stage == "" { // the policy itself
			m.progress.news.announced = false
		}

		f.log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", m.spec.Policy, "stored", states[i].Version.String(), "applied", applied.Version.String())

		// On a conflict the next poll sees what another instance has written.
		err := f.store.Put(ctx, m.spec.Policy, applied, promotion.Condition{})
		if err != nil && !errors.Is(err, promotion.ErrConflict) {
			return true, err
		}
	}
	return forgotten, nil
}

// begin puts the first state of the policies of which neither the store nor this instance
// knows any. It reports whether there was one.
func (f *fleet) begin(ctx context.Context, migrations []*migration) (begun bool, err error) {
	for _, m := range migrations {
		if applied := m.progress.stage.state.Load(); applied.Epoch != "" || applied.Version != (promotion.Version{}) {
			continue
		}
		begun = true
		if err := promotion.Begin(ctx, f.store, m.spec.Policy, m.spec.Epoch, "instance "+f.id); err != nil {
			return true, err
		}
	}
	return begun, nil
}

// announceOwn announces the policies whose stored epoch is this instance's, each once for
// as long as it is. Controllers judge by the last announcement, so an instance of
// another epoch keeps silent.
func (f *fleet) announceOwn(ctx context.Context, migrations []*migration) error {
	var news []*migration
	for _, m := range migrations {
		switch {
		case m.differs():
			m.progress.news.announced = false
		case !m.progress.news.announced || m.revised.Load():
			news = append(news, m)
		}
	}
	if len(news) == 0 {
		return nil
	}

	if err := f.announce(ctx, news); err != nil {
		return err
	}
	for _, m := range news {
		m.progress.news.announced = true
		m.revised.Store(false)
	}
	return nil
}

// announce writes what the policies compare, and by which thresholds they are judged.
func (f *fleet) announce(ctx context.Context, migrations []*migration) error {
	specs := make([]promotion.Spec, len(migrations))
	for i, m := range migrations {
		specs[i] = m.spec
	}
	return f.store.Announce(ctx, specs)
}

// beatEvery is the least time between two beats that say the same. With polls about every second
// the second one after a beat sends the next.
const beatEvery = 1500 * time.Millisecond

// beat tells the fleet that this instance is live, and which states it has applied: regularly, and
// at once where it has something new to say. Requires polling.
func (f *fleet) beat(ctx context.Context, migrations []*migration) error {
	i := f.describe(migrations)
	if f.beaten.within(beatEvery) && reflect.DeepEqual(i, f.said) {
		return nil
	}
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	f.view.offset.Store(int64(time.Until(now)))

	// When evidence was written is no news.
	said := i
	i.At, i.Policies = now, maps.Clone(i.Policies)
	i.Service = f.service.report(f.plan.Load(), f.signal)
	for _, m := range migrations {
		applied := i.Policies[m.spec.Policy]
		applied.Flushed = time.UnixMicro(m.progress.written.flushed.Load()).UTC()
		i.Policies[m.spec.Policy] = applied
	}
	if err := f.store.Beat(ctx, i); err != nil {
		return err
	}
	f.said = said
	f.beaten.note()
	return nil
}

// describe returns what a beat says besides times. Requires polling.
func (f *fleet) describe(migrations []*migration) promotion.Instance {
	i := promotion.Instance{
		ID: f.id, Idle: !f.hasDecided(), RedButton: f.button.pressed(), Failing: f.failing(), OwnStoreAway: f.ownAway(), Client: f.client,
		Policies: map[string]promotion.Applied{},
	}
	generation := f.plan.Load().generation()
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = promotion.Applied{
			Version: m.progress.stage.state.Load().Version, Epoch: m.spec.Epoch, Generation: generation,
		}
	}
	return i
}
