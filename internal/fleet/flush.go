package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
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

// writer writes what requests have counted to the ledger.
type writer struct {
	*common
	// writing is held by one flush at a time. A goroutine that needs poller.polling, too, takes that first.
	writing sync.Mutex
	rounds  int // of flushes; guarded by writing
}

// written is what the fleet knows of the writes of a policy to the ledger. But for flushed, writer.writing guards it.
type written struct {
	flushed atomic.Int64 // the ledger has all that was counted before, us
	round   int          // of the last write, by writer.rounds
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

// writeLoop flushes until ctx is over. A loss of data is part of the evidence that it writes.
func (w *writer) writeLoop(ctx context.Context) {
	flush := task{what: "write evidence", do: w.flush, within: Timeout}
	stores := task{what: "ask the stores whether they have lost data", do: w.CheckStores, within: Timeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(clock.Jittered(flushEvery)):
		}

		w.run(ctx, &stores)
		w.run(ctx, &flush)
	}
}

// flush writes the records of the policies of which something is due. It begins with another policy each time: if
// there is no time for all, it does not always leave out the same ones.
func (w *writer) flush(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.rounds++
	return w.flushEach(ctx, func(ctx context.Context, p *Policy, now time.Time) error {
		if p.due(w.rounds) {
			return w.flushOne(ctx, p, now)
		}
		if !p.Recorder.Changed() {
			p.written.flushed.Store(now.UnixMicro()) // nothing waits
		}
		return nil
	})
}

// flushAll writes everything that waits.
func (w *writer) flushAll(ctx context.Context) error {
	if w.ByOwner {
		return nil
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	w.rounds++
	return w.flushEach(ctx, w.flushRest)
}

// flushEach flushes all policies at the store's time. Requires writing.
func (w *writer) flushEach(ctx context.Context, flush func(context.Context, *Policy, time.Time) error) error {
	// The ledger's hours and days are those of the store's clock, which all instances share. A heartbeat has just asked for it.
	now, err := w.now(), error(nil)
	if !w.heard.Within(flushEvery) {
		if asked, failed := w.Store.Heartbeat(ctx, stages.Heartbeat{}); failed == nil {
			now = asked.Now
		} else {
			err = failed
		}
	}

	failed := []error{err}
	list := w.compared()
	if n := len(list); n > 0 {
		list = append(list[w.rounds%n:], list[:w.rounds%n]...)
	}

	// On a node of a cluster that hangs each write takes its time, which the policies of the others must not lack.
	slices.SortStableFunc(list, func(a, b *Policy) int { return cmp.Compare(a.written.late(), b.written.late()) })
	for _, p := range list {
		if err == nil {
			failed = append(failed, flush(ctx, p, now))
			continue
		}

		// Without the store's time there is nothing to write by, but the recorder
		// notes that the instance was there.
		p.Recorder.Present(now)
	}
	return errors.Join(failed...)
}

// flushRest writes everything of one policy, also what was counted while earlier writes failed. Requires writing.
func (w *writer) flushRest(ctx context.Context, p *Policy, now time.Time) error {
	p.written.keys = time.Time{}
	for collected := false; ; {
		waits := p.Recorder.Waiting()
		if collected && !waits {
			return nil
		}
		collected = collected || !waits
		if err := w.flushOne(ctx, p, now); err != nil {
			return err
		}
	}
}

// flushOne writes a batch of one policy. One that was not written is repeated by the next call. Requires writing.
func (w *writer) flushOne(ctx context.Context, p *Policy, now time.Time) error {
	id := p.id()
	exposed := p.Stage.State().Exposed()
	batch := p.Recorder.Batch(now, p.keysDue(exposed, now))
	p.written.exposed = exposed
	late := ctx.Err() != nil // what others have taken all the time for says nothing of this one
	dropped, err := w.Ledger.Add(ctx, id, batch)
	if !late {
		p.written.failed = err != nil
	}
	if err != nil {
		return err
	}
	p.Recorder.Written(batch)
	if dropped > 0 && !p.written.dropped {
		w.Log.Warn("shadowlimit: the ledger takes evidence of the last two hours only, by the clock of Redis; "+
			"some is lost, after an outage or by a clock that is wrong", "policy", p.Spec.Policy, "minutes", dropped)
	}
	p.written.dropped = dropped > 0

	if batch.Whole {
		p.written.keys = now
	}

	// Where an earlier write failed, the rest comes with the next batches, in the next rounds.
	if !batch.Until.IsZero() {
		p.written.flushed.Store(batch.Until.UnixMicro())
	}
	if batch.Until.Equal(now) {
		p.written.round = w.rounds
	}
	return nil
}

// flushDropped writes the last records of policies that a reload has dropped. Their queues have ended: what they held is
// evidence of the old plan.
func (w *writer) flushDropped(ctx context.Context, dropped []*Policy) {
	w.writing.Lock()
	defer w.writing.Unlock()
	for _, p := range dropped {
		if !p.Compared {
			continue
		}
		if err := w.flushRest(ctx, p, w.now()); err != nil {
			w.Log.Warn("shadowlimit: the last seconds of evidence before the reload are lost",
				"policy", p.Spec.Policy, "error", err)
		}
	}
}
