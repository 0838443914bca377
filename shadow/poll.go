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
	return f.pollLocked(ctx)
}

// pollLocked is poll. Requires polling.
func (f *fleet) pollLocked(ctx context.Context) error {
	migrations := f.migrations()
	names := make([]string, len(migrations))
	for i, m := range migrations {
		names[i] = m.spec.Policy
	}

	// States are read and applied first: that works even where nothing can be written.
	states, err := f.store.States(ctx, names)
	if err != nil {
		return err
	}
	for i, m := range migrations {
		m.apply(states[i])
		m.stage.heard.Store(time.Now().UnixNano())
	}

	// An announcement may have changed the states that were just applied. The second round
	// finds nothing to announce.
	news, err := f.announceEpochs(ctx, migrations)
	if err != nil {
		return err
	}
	if news {
		return f.pollLocked(ctx)
	}

	// The beat goes on where nothing can be asserted: the fleet must not lose sight of an
	// instance because one policy's state is refused.
	return errors.Join(f.reassert(ctx, migrations, states), f.beat(ctx, migrations))
}

// reassert writes what the store has forgotten, as it may after a failover.
func (f *fleet) reassert(ctx context.Context, migrations []*migration, states []promotion.State) error {
	var forgotten []*migration
	for i, m := range migrations {
		applied := *m.stage.state.Load()
		if applied.Epoch == "" || !applied.Supersedes(states[i]) {
			continue
		}
		if states[i].Stage == "" { // the store has forgotten the policy itself
			forgotten = append(forgotten, m)
		}

		f.log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", m.spec.Policy, "stored", states[i].Version.String(), "applied", applied.Version.String())

		// On a conflict the next poll sees what another instance has written.
		err := f.store.Put(ctx, m.spec.Policy, applied, nil)
		if err != nil && !errors.Is(err, promotion.ErrConflict) {
			return err
		}
	}

	if len(forgotten) > 0 {
		return f.announce(ctx, forgotten)
	}
	return nil
}

// announceEpochs writes to the store what this instance compares, once for each epoch: an
// older instance must not take the policy back again and again. It reports whether there
// was anything to write.
func (f *fleet) announceEpochs(ctx context.Context, migrations []*migration) (bool, error) {
	var news []*migration
	for _, m := range migrations {
		if m.announced && !m.revised.Load() {
			continue
		}
		if !m.announced {
			if err := promotion.Begin(ctx, f.store, m.spec.Policy, m.spec.Epoch, "instance "+f.id); err != nil {
				return false, err
			}
		}
		news = append(news, m)
	}
	if len(news) == 0 {
		return false, nil
	}

	// They count as announced when the store has both. After an error all of it is done
	// again, which changes nothing that was written.
	if err := f.announce(ctx, news); err != nil {
		return false, err
	}
	for _, m := range news {
		m.announced = true
		m.revised.Store(false)
	}
	return true, nil
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
		ID: f.id, At: now, RedButton: f.pressed(), Client: f.client, Policies: map[string]promotion.Applied{},
	}
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = promotion.Applied{
			Version: m.stage.state.Load().Version, Epoch: m.spec.Epoch, Flushed: time.UnixMicro(m.flushed.Load()).UTC(),
		}
	}
	return f.store.Beat(ctx, i)
}
