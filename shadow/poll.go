package shadow

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// poll sends a heartbeat and does what follows from the answer: it applies newer states, and writes the applied
// ones where the store has forgotten them. States are read only if they have changed. A breaker of requests does not hold
// it back: stages.TakeOverAfter without heartbeats means that an instance is gone.
func (f *fleet) poll(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	defer f.noteApplied()
	f.takeFromDisk()

	err := f.pollLocked(ctx)
	switch {
	case err == nil:
		f.trouble.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled): // a poll that was cut short says nothing of the store
		f.trouble.Store(&err)
	}
	return err
}

// mostHeartbeats bounds those of a poll: one reads a state, the next says that it is applied, and one is for a state that
// this instance has stored itself.
const mostHeartbeats = 3

func (f *fleet) pollLocked(ctx context.Context) error {
	migrations := f.migrations()
	var err error
	for range mostHeartbeats {
		h := f.heartbeat(migrations)
		heard, failed := f.store.Heartbeat(ctx, h)
		if failed != nil {
			// Levels come back by themselves where no leader is heard.
			if !f.heard.within(stages.LiveFor) {
				f.followLevels(nil)
			}
			return failed
		}
		f.note(&h, &heard, migrations)
		var stored bool
		if stored, err = f.follow(ctx, &heard, migrations); stored {
			f.changes = 0
		}
		if err = errors.Join(err, heard.Refused); err != nil || !stored && !f.hasNews(migrations) {
			break
		}
	}
	return err
}

// heartbeat is the next one. Requires polling.
func (f *fleet) heartbeat(migrations []*migration) stages.Heartbeat {
	h := stages.Heartbeat{ID: f.id, Policies: namesOf(migrations), Changes: f.changes}
	for _, m := range migrations {
		if m.announces() {
			h.Specs = append(h.Specs, m.spec)
		}
	}
	if !f.hasNews(migrations) {
		return h
	}

	// When evidence was written is no news.
	i := f.describe(migrations)
	f.said = i
	i.Policies = maps.Clone(i.Policies)
	i.Service = f.service.report(f.plan.Load(), f.signal, f.log)
	for _, m := range migrations {
		applied := i.Policies[m.spec.Policy]
		applied.Flushed = time.UnixMicro(m.progress.written.flushed.Load()).UTC()
		i.Policies[m.spec.Policy] = applied
	}
	h.Self = &i
	return h
}

// hasNews reports whether the next heartbeat has something to say besides that the instance is live. Requires polling.
func (f *fleet) hasNews(migrations []*migration) bool {
	return !f.sent.within(stages.HeartbeatEvery) || !reflect.DeepEqual(f.describe(migrations), f.said)
}

// describe returns what this instance says of itself besides times. Requires polling.
func (f *fleet) describe(migrations []*migration) stages.Instance {
	i := stages.Instance{
		ID: f.id, Idle: !f.hasDecided(), RedButton: f.button.pressed(), Failing: f.failing(), OwnStoreUnreachable: f.ownAway(), Client: f.client,
		Generation: f.plan.Load().generation(), Policies: map[string]stages.Applied{},
	}
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = stages.Applied{Version: m.progress.stage.state.Load().Version, Fingerprint: m.spec.Fingerprint}
	}
	return i
}

// hasDecided reports whether this instance has decided a request since it started. Requires polling.
func (f *fleet) hasDecided() bool {
	for _, m := range f.plan.Load().migrations {
		if f.decided {
			return true
		}
		f.decided = m.progress.recorder.Totals().Decisions != [2]evidence.Decisions{} || m.progress.counts.fellBack()
	}
	return f.decided
}

// note notes the answer to a heartbeat, as far as it is no state. Requires polling.
func (f *fleet) note(h *stages.Heartbeat, heard *stages.Heard, migrations []*migration) {
	f.heard.note()
	f.view.offset.Store(int64(time.Until(heard.Now)))
	f.followLevels(heard.Levels)

	// Limits are divided by this number where a store fails. This instance is one of them, even where it cannot say so.
	f.view.live.Store(int64(max(1, heard.Live)))
	f.view.counted.Store(true)

	switch {
	case !heard.Known: // the store has lost its data
		f.sent.clear()
	case h.Self != nil && heard.Refused == nil:
		f.sent.note()
	}
	// The old master of a split knows of no rollback. With min-replicas-to-write it says what it is, and a canary ends as in an outage.
	if !status.LacksReplicas(heard.Refused) {
		for _, m := range migrations {
			m.progress.stage.heard.note()
		}
	}
	for _, spec := range h.Specs {
		if m := f.plan.Load().named(spec.Policy); m != nil && heard.Refused == nil {
			m.progress.announced.known = true
			m.revised.Store(false)
		}
	}
}

// follow applies the states of an answer, and stores what this instance knows and the store does not: states that a
// failover has forgotten, first states, and orders of the red button. It reports whether it has stored anything.
func (f *fleet) follow(ctx context.Context, heard *stages.Heard, migrations []*migration) (stored bool, err error) {
	var failed []error
	if heard.States != nil {
		for i, m := range migrations {
			m.apply(heard.States[i])
			m.noteFingerprint(f.file)
		}
		f.changes = heard.Changes

		// What this instance knows comes before what it would begin: after a loss of data the policy goes on where it was.
		for i, m := range migrations {
			put, err := f.restore(ctx, m, heard.States[i])
			stored = stored || put
			failed = append(failed, err)
		}
	}
	moved, err := f.storeOrders(ctx)
	return stored || moved, errors.Join(append(failed, err)...)
}

// restore writes the state of a policy where the store has none, or an older one.
func (f *fleet) restore(ctx context.Context, m *migration, stored stages.State) (bool, error) {
	applied := *m.progress.stage.state.Load()
	if stored.Stage == "" { // the policy itself is forgotten
		m.progress.announced.known = false
	}
	switch {
	case applied.Fingerprint == "" && applied.Version == stages.Version{}:
		return true, stages.Begin(ctx, f.store, m.spec.Policy, m.spec.Fingerprint, f.plan.Load().generation(), "instance "+f.id)
	case applied.Fingerprint == "" || !applied.Supersedes(stored):
		return false, nil
	}

	// On a conflict the next heartbeat reads what another instance has written.
	err := f.store.Put(ctx, m.spec.Policy, applied, stages.Condition{})
	switch {
	case errors.Is(err, stages.ErrConflict):
		err = nil
	case err == nil:
		f.log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", m.spec.Policy, "stored", stored.Version.String(), "applied", applied.Version.String())
	}
	return true, err
}

// announced is what the fleet knows of a policy from this instance, and what the log knows of the fleet.
type announced struct {
	known bool   // the fleet has the spec
	other string // the fleet's fingerprint, as logged; "" if it is this instance's
}

// announces reports whether the next heartbeat has the spec of a policy. The leader evaluates by the last
// announcement, so an instance of another fingerprint keeps silent.
func (m *migration) announces() bool {
	if m.progress.stage.state.Load().Fingerprint != m.spec.Fingerprint {
		m.progress.announced.known = false
		return false
	}
	return !m.progress.announced.known || m.revised.Load()
}

// differs reports whether the fleet compares something else than this instance.
func (m *migration) differs() bool {
	stored := m.progress.stage.state.Load().Fingerprint
	return stored != "" && stored != m.spec.Fingerprint
}

// noteFingerprint logs that the fleet compares something else than this instance, and the end of
// that: a line for each change, with the policy file of this instance if it has one. Requires polling.
func (m *migration) noteFingerprint(file string) {
	// "" stands for no difference, so that its end is a change as well.
	s := m.progress.stage.state.Load()
	stored := s.Fingerprint
	if !m.differs() {
		stored = ""
	}
	if stored == m.progress.announced.other {
		return
	}
	m.progress.announced.other = stored

	// Of several files on one machine an operator looks for the one that was not deployed.
	attrs := []any{"policy", m.spec.Policy, "fingerprint", m.spec.Fingerprint}
	if file != "" {
		attrs = append(attrs, "file", file)
	}
	switch {
	case stored == "":
		m.progress.log.Info("shadowlimit: the fleet compares what this instance compares; it follows the stage again", attrs...)
	case s.Of(m.spec.Fingerprint) == stages.Completed:
		m.progress.log.Warn("shadowlimit: the fleet has another policy file than this instance, which goes on enforcing "+
			"the candidate that it has completed", append(attrs, "stored", stored)...)
	default:
		m.progress.log.Warn("shadowlimit: the fleet has another policy file than this instance, which enforces the authoritative; "+
			"see shadowlimit status POLICY for what it waits for", append(attrs, "stored", stored)...)
	}
}
