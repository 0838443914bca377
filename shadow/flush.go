package shadow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// How often the evidence of a policy is written, in rounds of writeLoop: where the candidate is enforced each time, because
// triggers read it, and once more when that ends; where there is something new, before each assessment; and else as a sign that the
// instance is there.
const (
	changedRounds = int(stages.EvaluateEvery / flushEvery)
	idleRounds    = int(time.Minute / flushEvery)
	// Keys are shown, and min_denied_keys counts them: after the first ones they may wait for longer.
	keysSoon  = time.Minute - flushEvery
	keysEvery = 5 * time.Minute
)

// written is what the fleet knows of a migration's writes to the ledger. But for flushed, fleet.writing guards it.
type written struct {
	flushed atomic.Int64 // the ledger has all that was counted before, us
	round   int          // of the last write, by fleet.rounds
	// When keys were last part of a write, by the store's clock. The zero time says that they are due.
	keys time.Time
	// Whether the candidate was enforced for any key at the last write, and whether something came too late for the ledger.
	exposed, dropped bool
	failed           bool // the last write that had time
}

// late is 1 where the last write has failed, and else 0.
func (w *written) late() int {
	if w.failed {
		return 1
	}
	return 0
}

// past reports whether so much time has passed since an instant. A clock that has stepped back says nothing.
func past(d time.Duration, since, now time.Time) bool {
	passed := now.Sub(since)
	return passed < 0 || passed >= d
}

func (m *migration) due(round int) bool {
	since := round - m.progress.written.round
	return m.progress.written.round == 0 || since >= idleRounds || m.progress.stage.state.Load().Exposed() || m.progress.written.exposed ||
		since >= changedRounds && m.progress.recorder.Changed()
}

// flush writes the records of the policies of which something is due. It begins with another policy each time: if
// there is no time for all, it does not always leave out the same ones.
func (f *fleet) flush(ctx context.Context) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.rounds++
	return f.flushEach(ctx, func(ctx context.Context, m *migration, now time.Time) error {
		if m.due(f.rounds) {
			return f.flushOne(ctx, m, now)
		}
		if !m.progress.recorder.Changed() {
			m.progress.written.flushed.Store(now.UnixMicro()) // nothing waits
		}
		return nil
	})
}

// flushAll writes everything that waits.
func (f *fleet) flushAll(ctx context.Context) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.rounds++
	return f.flushEach(ctx, f.flushRest)
}

// flushEach flushes all policies at the store's time. Requires f.writing.
func (f *fleet) flushEach(ctx context.Context, flush func(context.Context, *migration, time.Time) error) error {
	// The ledger's hours and days are those of the store's clock, which all instances share. A heartbeat has just asked for it.
	now, err := f.view.now(), error(nil)
	if !f.heard.within(flushEvery) {
		if asked, failed := f.store.Heartbeat(ctx, stages.Heartbeat{}); failed == nil {
			now = asked.Now
		} else {
			err = failed
		}
	}

	failed := []error{err}
	migrations := f.migrations()
	if n := len(migrations); n > 0 {
		migrations = append(migrations[f.rounds%n:], migrations[:f.rounds%n]...)
	}

	// On a node of a cluster that hangs each write takes its time, which the policies of the others must not lack.
	slices.SortStableFunc(migrations, func(a, b *migration) int { return cmp.Compare(a.progress.written.late(), b.progress.written.late()) })
	for _, m := range migrations {
		if err == nil {
			failed = append(failed, flush(ctx, m, now))
			continue
		}

		// Without the store's time there is nothing to write by, but the recorder
		// notes that the instance was there.
		m.progress.recorder.Present(now)
	}
	return errors.Join(failed...)
}

// flushRest writes everything of one policy, also what was counted while earlier writes failed. Requires f.writing.
func (f *fleet) flushRest(ctx context.Context, m *migration, now time.Time) error {
	m.progress.written.keys = time.Time{}
	for collected := false; ; {
		waits := m.progress.recorder.Waiting()
		if collected && !waits {
			return nil
		}
		collected = collected || !waits
		if err := f.flushOne(ctx, m, now); err != nil {
			return err
		}
	}
}

// flushOne writes a batch of one policy. One that was not written is repeated by the next call. Requires f.writing.
func (f *fleet) flushOne(ctx context.Context, m *migration, now time.Time) error {
	id := m.id()
	exposed := m.progress.stage.state.Load().Exposed()
	batch := m.progress.recorder.Batch(now, m.keysDue(exposed, now))
	m.progress.written.exposed = exposed
	late := ctx.Err() != nil // what others have taken all the time for says nothing of this one
	dropped, err := f.ledger.Add(ctx, id, batch)
	if !late {
		m.progress.written.failed = err != nil
	}
	if err != nil {
		return err
	}
	m.progress.recorder.Written(batch)
	if dropped > 0 && !m.progress.written.dropped {
		f.log.Warn("shadowlimit: the ledger takes evidence of the last two hours only, by the clock of Redis; "+
			"some is lost, after an outage or by a clock that is wrong", "policy", m.spec.Policy, "minutes", dropped)
	}
	m.progress.written.dropped = dropped > 0

	if batch.Whole {
		m.progress.written.keys = now
	}

	// Where an earlier write failed, the rest comes with the next batches, in the next rounds.
	if !batch.Until.IsZero() {
		m.progress.written.flushed.Store(batch.Until.UnixMicro())
	}
	if batch.Until.Equal(now) {
		m.progress.written.round = f.rounds
	}
	return nil
}

// keysDue reports whether to write the keys of a policy. An operator looks for the first ones that differ, for all of them while the
// candidate is enforced, and after a rollback for the clients that it has harmed: that write is at once. Requires f.writing.
func (m *migration) keysDue(exposed bool, now time.Time) bool {
	left := m.progress.written.exposed && !exposed
	soon := exposed || m.progress.recorder.KeysWait()
	return left || past(keysEvery, m.progress.written.keys, now) || soon && past(keysSoon, m.progress.written.keys, now)
}

// replan replaces the plan in use, and writes the last records of the dropped migrations.
// It may take a few seconds where a limiter or the store hangs; requests use the next plan
// from its first lines on.
func (f *fleet) replan(next *plan, dropped []*migration) {
	// A poll or a flush under way has the migrations of the old plan, so both end first. A
	// poll of the old plan could otherwise announce an old fingerprint after the new one.
	f.polling.Lock()
	f.writing.Lock()
	f.hasDecided() // by the counts of the old plan, which end with it
	f.changes = 0  // the states of new policies are not known
	f.plan.Store(next)
	f.writing.Unlock()
	f.polling.Unlock()

	select {
	case f.replanned <- struct{}{}:
	default: // a poll is due already
	}

	// The queues end before the last records are written: what they hold is evidence
	// of the old plan.
	ctx, cancel := context.WithTimeout(context.Background(), fleetTimeout)
	defer cancel()
	for i, err := range closeAsync(ctx, dropped) {
		m := dropped[i]
		if err != nil {
			f.log.Warn("shadowlimit: a custom limiter that is no longer used does not return; its calls are left behind",
				"policy", m.spec.Policy)
		}
		if !m.hasCandidate() {
			continue
		}

		f.writing.Lock()
		if err := f.flushRest(ctx, m, f.view.now()); err != nil {
			f.log.Warn("shadowlimit: the last seconds of evidence before the reload are lost",
				"policy", m.spec.Policy, "error", err)
		}
		f.writing.Unlock()
	}
}
