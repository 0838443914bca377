package shadow

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// flush writes the records of all policies. It begins with another policy each time: if
// there is no time for all, it does not always leave out the same ones.
func (f *fleet) flush(ctx context.Context) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.rounds++

	// The ledger's hours and days are those of the store's clock, which all instances share.
	now, err := f.store.Now(ctx)
	if err != nil {
		now = f.view.now()
	}

	failed := []error{err}
	migrations := f.migrations()
	for i := range migrations {
		m := migrations[(f.rounds+i)%len(migrations)]
		if err == nil {
			failed = append(failed, f.flushOne(ctx, m, now))
			continue
		}

		// Without the store's time there is nothing to write by, but the recorder
		// notes that the instance was there.
		m.recorder.Snapshot(now)
		m.recorder.Abandon(now)
	}
	return errors.Join(failed...)
}

// flushOne writes the records of one policy and of its noise floor. A snapshot is
// cumulative, so a write that failed is made good by the next one. Requires f.writing.
func (f *fleet) flushOne(ctx context.Context, m *migration, now time.Time) error {
	snapshot := m.recorder.Snapshot(now)
	if err := f.ledger.Write(ctx, m.id(), f.id, snapshot); err != nil {
		m.recorder.Abandon(now)
		return err
	}

	// The noise floor comes second: the policy's evidence is the one that decides.
	m.recorder.Commit(snapshot, now)
	m.flushed.Store(now.UnixMicro())
	if m.noise == nil {
		return nil
	}
	return f.flushOne(ctx, m.noise, now)
}

// replan replaces the plan in use, and writes the last records of the dropped migrations.
// It may take a few seconds where a limiter or the store hangs; requests use the next plan
// from its first lines on.
func (f *fleet) replan(next *plan, dropped []*migration) {
	// A poll or a flush under way has the migrations of the old plan, so both end first. A
	// poll of the old plan could otherwise announce an old epoch after the new one.
	f.polling.Lock()
	f.writing.Lock()
	f.decides() // by the counts of the old plan, which end with it
	next.replace(f.plan.Load())
	f.plan.Store(next)
	f.writing.Unlock()
	f.polling.Unlock()

	select {
	case f.replanned <- struct{}{}:
	default: // a poll is due already
	}

	// Followers end before the last records are written: queued charges are evidence
	// of the old plan.
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	for i, err := range closeFollowers(ctx, dropped) {
		m := dropped[i]
		if err != nil {
			f.log.Warn("shadowlimit: a foreign limiter that is no longer used does not return; its calls are left behind",
				"policy", m.spec.Policy)
		}
		if !m.hasCandidate() {
			continue
		}

		f.writing.Lock()
		if err := f.flushOne(ctx, m, f.view.now()); err != nil {
			f.log.Warn("shadowlimit: the last seconds of evidence before the reload are lost",
				"policy", m.spec.Policy, "error", err)
		}
		f.writing.Unlock()
	}
}

// replace notes which epochs end with the plan before. One that the fleet has not heard of
// yet ends unheard, and the one before it is still to be handed over.
func (p *plan) replace(before *plan) {
	for _, m := range p.migrations {
		if old := before.named(m.spec.Policy); old != nil && old.progress != m.progress {
			m.news.replaces = cmp.Or(old.news.replaces, old.spec.Epoch)
		}
	}
}
