package shadow

import (
	"context"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// poll applies newer states, writes the applied ones where the store has forgotten them,
// and tells the fleet that this instance is there.
func (f *fleet) poll(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	defer f.noteApplied()
	return f.pollLocked(ctx)
}

// pollLocked is poll. Requires polling.
func (f *fleet) pollLocked(ctx context.Context) error {
	migrations := f.migrations()

	// States are read and applied first: that works even where nothing can be written.
	states, err := f.applyStates(ctx, migrations)
	if err != nil {
		return err
	}

	// What this instance knows comes before what it would begin: after a loss of data the
	// policy goes on where it was.
	failed := []error{f.reassert(ctx, migrations, states)}
	begun, err := f.begin(ctx, migrations)
	failed = append(failed, err)
	if begun {
		_, err := f.applyStates(ctx, migrations)
		failed = append(failed, err)
	}

	// The beat goes on where nothing can be written: the fleet must not lose sight of an
	// instance because one policy's state is refused.
	failed = append(failed, f.storeOrders(ctx), f.announceOwn(ctx, migrations), f.beat(ctx, migrations))
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return f.handOver(ctx, migrations)
}

// applyStates reads and applies the states of migrations.
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
		m.settle(states[i])
		m.apply(states[i])
		m.stage.heard.note()
		m.noteEpoch()
	}
	return states, nil
}

// reassert writes what the store has forgotten, as it may after a failover.
func (f *fleet) reassert(ctx context.Context, migrations []*migration, states []promotion.State) error {
	for i, m := range migrations {
		applied := *m.stage.state.Load()
		if applied.Epoch == "" || !applied.Supersedes(states[i]) {
			continue
		}
		if states[i].Stage == "" { // the store has forgotten the policy itself
			m.news.announced = false
		}

		f.log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", m.spec.Policy, "stored", states[i].Version.String(), "applied", applied.Version.String())

		// On a conflict the next poll sees what another instance has written.
		err := f.store.Put(ctx, m.spec.Policy, applied, promotion.Condition{})
		if err != nil && !errors.Is(err, promotion.ErrConflict) {
			return err
		}
	}
	return nil
}

// begin puts the first state of the policies of which neither the store nor this instance
// knows any. It reports whether there was one.
func (f *fleet) begin(ctx context.Context, migrations []*migration) (begun bool, err error) {
	for _, m := range migrations {
		if applied := m.stage.state.Load(); applied.Epoch != "" || applied.Version != (promotion.Version{}) {
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
// as long as it is. Controllers judge by what was announced last, so an instance of
// another epoch keeps silent.
func (f *fleet) announceOwn(ctx context.Context, migrations []*migration) error {
	var news []*migration
	for _, m := range migrations {
		switch {
		case m.differs():
			m.news.announced = false
		case !m.news.announced || m.revised.Load():
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
		m.news.announced = true
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

// beat tells the fleet that this instance is live, and which states it has applied.
func (f *fleet) beat(ctx context.Context, migrations []*migration) error {
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	f.view.offset.Store(int64(time.Until(now)))

	i := promotion.Instance{
		ID: f.id, At: now, Idle: !f.decides(), RedButton: f.button.pressed(), Client: f.client, Policies: map[string]promotion.Applied{},
	}
	generation := f.plan.Load().generation()
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = promotion.Applied{
			Version: m.stage.state.Load().Version, Epoch: m.spec.Epoch, Generation: generation, Flushed: time.UnixMicro(m.flushed.Load()).UTC(),
		}
	}
	return f.store.Beat(ctx, i)
}
