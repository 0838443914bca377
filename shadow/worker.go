package shadow

import (
	"context"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// How a worker treats a charge that is ahead of its predecessors: another instance, or
// another request of this one, has charged the leading side before, and its follower is
// still on the way. Judged now, the two would be in another order than at the leading side.
const (
	// patience is how long such a charge waits, from its answer on.
	patience = 100 * time.Millisecond
	// earlyPause is how long a worker lets pass before it tries again.
	earlyPause = 4 * time.Millisecond
	// mostEarly bounds the charges that wait, per worker.
	mostEarly = followQueue
	// A predecessor that was dropped never comes. After mostVain waits in a row that ended
	// without it, as after a store has lost its data, a worker does not wait for
	// impatientFor: waiting for each key would fill the queue.
	mostVain     = 3
	impatientFor = time.Second
)

// worker judges the charges of one queue. One goroutine has it.
type worker struct {
	*followers
	queue     <-chan *followed
	early     []followed // ahead of their predecessors, in the queue's order
	again     time.Time  // when they are asked again
	vain      int        // waits in a row that ended without the predecessor
	impatient time.Time  // until when no charge waits
}

// work judges queued charges until the queue is closed.
func (w *worker) work() {
	batch := make([]followed, 0, followBatch)
	for open := true; open || len(w.early) > 0; {
		batch, open = w.take(batch[:0], open)
		last := len(batch) - 1
		if last < 0 || batch[last].done == nil {
			w.judge(batch)
			clear(batch)
			continue
		}

		// A mark is no charge. Closing it after the judging tells drain that everything
		// before it has been recorded.
		drained := batch[last].done
		w.judge(batch[:last])
		for len(w.early) > 0 {
			time.Sleep(earlyPause)
			w.judge(w.takeEarly(nil))
		}
		close(drained)

		// A worker may wait for hours, and must not keep keys of requests alive.
		clear(batch)
	}
}

// take takes charges of the queue, as many as one round trip judges and none behind a mark, or
// else the early charges, when a moment has passed. It waits for the first of these, and
// reports whether the queue is open.
func (w *worker) take(batch []followed, open bool) ([]followed, bool) {
	// Early charges are asked again once a pause, and not with each batch of the queue: a
	// store that has lost its data would else be asked for all of them in each round trip.
	var pause <-chan time.Time
	if len(w.early) > 0 {
		timer := time.NewTimer(time.Until(w.again))
		defer timer.Stop()
		pause = timer.C
	}

	queue := w.queue
	if !open {
		queue = nil
	}
	select {
	case first, ok := <-queue:
		if !ok {
			return batch, false
		}
		batch = takeJob(batch, first)
	case <-pause:
		w.again = time.Now().Add(earlyPause)
		return w.takeEarly(batch), open
	}

	// Only charges that wait already: a request's evidence is not held back for others. Behind a call
	// that does not return they stay in the queue, where close finds them.
	for most := len(batch) + followBatch; open && len(batch) < most && !endsInMark(batch) && !endsInCall(batch); {
		select {
		case next, ok := <-queue:
			if !ok {
				return batch, false
			}
			batch = takeJob(batch, next)
		default:
			return batch, true
		}
	}
	return batch, open
}

// endsInMark reports whether the last entry of a batch is a mark, which no charge may overtake.
func endsInMark(batch []followed) bool {
	return len(batch) > 0 && batch[len(batch)-1].done != nil
}

// endsInCall reports whether the last charge is judged by a call of its own, and not with others.
func endsInCall(batch []followed) bool {
	return len(batch) > 0 && batch[len(batch)-1].side().foreign != nil
}

// takeEarly moves the early charges to a batch.
func (w *worker) takeEarly(batch []followed) []followed {
	batch = append(batch, w.early...)
	clear(w.early)
	w.early = w.early[:0]
	return batch
}

// takeJob copies a job and returns its memory to the pool. The job may not be used after
// that: another request may already fill it.
func takeJob(batch []followed, job *followed) []followed {
	batch = append(batch, *job)
	*job = followed{}
	jobs.Put(job)
	return batch
}

// judge judges sides and records the outcomes, except for charges that are early. Both
// roles may be among them where the stage has just changed.
func (w *worker) judge(batch []followed) {
	for len(batch) > 0 {
		n := inOneCall(batch)
		w.ask(batch[:n])
		for i := range batch[:n] {
			w.finish(&batch[i])
		}
		batch = batch[n:]
	}
}

// finish records a charge that was judged, and keeps one that is early.
func (w *worker) finish(job *followed) {
	o := &job.into[job.role()]
	if o.Status == algorithms.Deferred {
		w.early = append(w.early, *job)
		return
	}

	ev := &job.evaluation
	ev.warnFailure(job.role(), o)
	markStoreFailed(&job.into)
	if job.side().foreign != nil {
		ev.noteLate(job.at, time.Since(job.answered))
	}
	ev.record(&job.charge, job.at, &job.into)
	w.unsettled.Add(-1)
}

// inOneCall returns how many of the first jobs one call judges: those of one side of one
// migration in a store, and just one where a foreign limiter is asked. Only neighbours are
// taken together: that keeps a key's charges in order.
func inOneCall(batch []followed) int {
	first := &batch[0]
	n := 1
	if first.side().foreign != nil {
		return n
	}
	for n < len(batch) && batch[n].role() == first.role() && batch[n].evaluation.migration == first.evaluation.migration {
		n++
	}
	return n
}

// ask asks one side of charges, one charge if it is a foreign limiter.
func (w *worker) ask(batch []followed) {
	// The context is the followers' own: the request's may be over by now.
	role, s := batch[0].role(), batch[0].side()
	ctx, cancel := context.WithTimeout(w.ctx, followTimeout)
	defer cancel()

	switch {
	case w.ctx.Err() != nil: // close has given up on the rest
		for i := range batch {
			batch[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	case s.foreign != nil:
		job := &batch[0]
		job.into[role] = s.withBreaker(ctx, func() algorithms.Observation {
			return call(ctx, s.foreign, &job.charge, job.evaluation.limits[role])
		})
	default:
		w.askStore(ctx, role, batch)
	}

	// A call that close has interrupted had less than its time: that is no failure.
	for i := range batch {
		if w.ctx.Err() != nil && errors.Is(batch[i].into[role].Err, context.Canceled) {
			batch[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	}
}

// askStore judges one side of charges by its store, each at the instant at which the
// other side was judged, as the store's own clock would have shown it.
func (w *worker) askStore(ctx context.Context, role algorithms.Role, batch []followed) {
	s, other := batch[0].side(), batch[0].evaluation.sides[role.Other()].store
	charges := make([]algorithms.Charge, len(batch))
	observed := make([]observations, len(batch))

	for i := range batch {
		job := &batch[i]
		charges[i] = job.evaluation.only(role, &job.charge)

		// Any charge of the batch may be early, so there has to be room for each that waits.
		charges[i].Lead.Patient = len(w.early)+i < mostEarly && w.waits(job)

		// An instant that Config.Clock gave is for both sides as it is. Sides that are judged at two
		// instants have not had the same charges, and are not numbered as if they had.
		if charges[i].At.IsZero() {
			known := false
			charges[i].At, known = s.store.instant(job.answered, other, job.into[role.Other()].At)
			if !known {
				charges[i].Epoch = 0
			}
		}
	}

	s.store.evaluate(ctx, charges, observed)
	for i := range batch {
		o := &observed[i][role]
		if charges[i].Epoch != batch[i].charge.Epoch && o.Status == algorithms.Judged {
			o.Apart = o.At.UnixMicro()
		}
		batch[i].into[role] = *o
		w.learn(&batch[i], &charges[i], o.Status)
	}
}

// waits reports whether a charge that is ahead of its predecessors is to wait for them.
func (w *worker) waits(job *followed) bool {
	now := time.Now()
	return job.charge.Lead.Number != 0 && now.Sub(job.answered) < patience &&
		!now.Before(w.impatient)
}

// learn notes whether waiting for predecessors was in vain.
func (w *worker) learn(job *followed, asked *algorithms.Charge, status algorithms.Status) {
	if !job.waited || status == algorithms.Deferred {
		job.waited = job.waited || status == algorithms.Deferred
		return
	}

	// A charge that was still allowed to wait has been judged in its turn.
	if asked.Lead.Patient {
		w.vain = 0
		return
	}
	w.vain++
	if w.vain >= mostVain {
		w.impatient = time.Now().Add(impatientFor)
	}
}
