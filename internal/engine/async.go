package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
)

// Bounds of the checks that are made after the answer, per policy.
const (
	asyncWorkers = 4
	asyncWaiting = 256 // checks, per worker; beyond that they are inconclusive
	asyncBatch   = 32  // made by one round trip, where the side is in a store
	// asyncTimeout is for one batch or one call of a custom limiter. No request waits for
	// it, so it is longer than callTimeout.
	asyncTimeout = time.Second
)

// asyncQueue asks a policy's side that is not enforced, where it shares no record with the
// enforced one, after the answer to the request. A key's checks stay in order, for one worker
// makes them all, one batch behind the other. A side that hangs holds up its own policy's queue
// alone. Workers begin with the first check, and end with close.
type asyncQueue struct {
	queues atomic.Pointer[[asyncWorkers]chan *asyncCheck] // nil until the first check
	begin  sync.Once
	done   sync.WaitGroup     // of the workers
	stop   context.CancelFunc // ends ctx
	ctx    context.Context    // of all calls; over when close gives up waiting

	mu     sync.RWMutex // guards closed against sends to closed queues
	closed bool
}

// asyncCheck is a check whose enforced side has answered.
type asyncCheck struct {
	check      algorithms.Check
	evaluation evaluation
	at         time.Time       // by the clock that evidence is read by
	seen       Observations    // the enforced side's is there; the worker adds the other
	done       chan<- struct{} // set in the entries of drain, which are no checks
}

// asyncChecks are used again: queues full of new ones would take half a megabyte a policy.
var asyncChecks = sync.Pool{New: func() any { return new(asyncCheck) }}

// role is the side that is to be asked.
func (c *asyncCheck) role() algorithms.Role { return c.check.Enforced.Other() }

func (c *asyncCheck) side() *Side { return &c.evaluation.Sides[c.role()] }

func newAsyncQueue() *asyncQueue {
	q := &asyncQueue{}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// start makes the queues and starts their workers.
func (q *asyncQueue) start() {
	var queues [asyncWorkers]chan *asyncCheck
	for i := range queues {
		queues[i] = make(chan *asyncCheck, asyncWaiting)
		q.done.Go(func() { q.work(queues[i]) })
	}
	q.queues.Store(&queues)
}

// add queues a copy of a check, or reports that there is no room. It never waits: it is called
// in the request.
func (q *asyncQueue) add(c *asyncCheck) bool {
	// Requests share the lock. It keeps close from closing a queue under a send, which
	// would panic in the request.
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return false
	}
	q.begin.Do(q.start)

	// The key may be part of a request's buffer, which is used again.
	kept := asyncChecks.Get().(*asyncCheck)
	*kept = *c
	kept.check.Key = strings.Clone(c.check.Key)

	// The hash gives each key one worker, and so keeps its checks in order.
	select {
	case q.queues.Load()[c.evaluation.hash%asyncWorkers] <- kept:
		return true
	default:
		*kept = asyncCheck{}
		asyncChecks.Put(kept)
		return false
	}
}

// waiting returns how many checks are queued; 0 for nil, which has no queue.
func (q *asyncQueue) waiting() (n int) {
	if q == nil {
		return 0
	}
	if queues := q.queues.Load(); queues != nil {
		for _, queue := range queues {
			n += len(queue)
		}
	}
	return n
}

// work makes the checks of one queue until that is closed and empty.
func (q *asyncQueue) work(queue <-chan *asyncCheck) {
	batch := make([]asyncCheck, 0, asyncBatch)
	for first := range queue {
		// Only checks that wait already: a request's evidence is not held back for others. None
		// behind an entry of drain, nor behind a call that may not return: close finds those.
		batch = takeAsync(batch[:0], first)
		for len(batch) < asyncBatch && len(queue) > 0 && batch[len(batch)-1].batched() {
			next, open := <-queue
			if !open {
				break
			}
			batch = takeAsync(batch, next)
		}

		checks, drained := batch, batch[len(batch)-1].done
		if drained != nil {
			checks = batch[:len(batch)-1]
		}
		for len(checks) > 0 {
			n := inOneCall(checks)
			q.ask(checks[:n])
			for i := range checks[:n] {
				checks[i].finish()
			}
			checks = checks[n:]
		}
		if drained != nil {
			close(drained)
		}

		// A worker may wait for hours, and must not keep keys of requests alive.
		clear(batch)
	}
}

// batched reports whether other checks may be asked for together with this one.
func (c *asyncCheck) batched() bool { return c.done == nil && c.side().custom == nil }

// takeAsync copies a check and returns its memory to the pool: another request may fill it now.
func takeAsync(batch []asyncCheck, c *asyncCheck) []asyncCheck {
	batch = append(batch, *c)
	*c = asyncCheck{}
	asyncChecks.Put(c)
	return batch
}

// inOneCall returns how many of the first checks one call makes: those of one side of one
// policy in a store, and just one where a custom limiter is asked. Only neighbours are
// taken together: that keeps a key's checks in order. Both roles may be among them where the
// stage has just changed.
func inOneCall(batch []asyncCheck) int {
	first, n := &batch[0], 1
	for first.batched() && n < len(batch) && batch[n].role() == first.role() &&
		batch[n].evaluation.Policy == first.evaluation.Policy {
		n++
	}
	return n
}

// ask asks one side of checks, one check if it is a custom limiter.
func (q *asyncQueue) ask(batch []asyncCheck) {
	// The context is the queue's own: the request's may be over by now.
	role, s := batch[0].role(), batch[0].side()
	ctx, cancel := context.WithTimeout(q.ctx, asyncTimeout)
	defer cancel()

	switch {
	case q.ctx.Err() != nil: // close has given up on the rest
		for i := range batch {
			batch[i].seen[role] = algorithms.Skip(algorithms.OtherReason)
		}
	case s.custom != nil:
		c := &batch[0]
		c.seen[role] = s.withBreaker(ctx, func() algorithms.Observation {
			return call(ctx, s.custom, &c.check, c.evaluation.limits[role])
		})
	default:
		askStoreAsync(ctx, role, batch)
	}

	// A call that close has interrupted had less than its time: that is no failure.
	for i := range batch {
		if q.ctx.Err() != nil && errors.Is(batch[i].seen[role].Err, context.Canceled) {
			batch[i].seen[role] = algorithms.Skip(algorithms.OtherReason)
		}
	}
}

// askStoreAsync asks a store, for each check at the instant at which the other side was asked: two
// limiters that are the same then see the same requests at the same times, however late this is.
func askStoreAsync(ctx context.Context, role algorithms.Role, batch []asyncCheck) {
	checks := make([]algorithms.Check, len(batch))
	seen := make([]Observations, len(batch))
	for i := range batch {
		c := &batch[i]
		checks[i] = c.evaluation.only(role, &c.check)
		checks[i].Deferred = true

		// An instant that Config.Clock gave is for both sides. A custom limiter tells none.
		if checks[i].At.IsZero() {
			checks[i].At = c.seen[role.Other()].At
		}
		if checks[i].At.IsZero() {
			checks[i].At = c.at
		}
	}

	batch[0].side().store.evaluate(ctx, checks, seen)
	for i := range batch {
		batch[i].seen[role] = seen[i][role]
	}
}

// finish records a check that was made.
func (c *asyncCheck) finish() {
	ev := &c.evaluation
	ev.warnFailure(c.role(), &c.seen[c.role()])
	c.seen = markStoreFailed(c.seen)
	ev.record(&c.check, c.at, &c.seen)
	if ev.charge != nil {
		ev.charge.asked()
	}
}

var errNotDrained = errors.New("shadow: sync: some checks behind requests have not been made in time")

// drain waits until all checks that are queued now have been made, for 2 s at most.
func (q *asyncQueue) drain(ctx context.Context) error {
	queues := q.queues.Load()
	if queues == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*asyncTimeout)
	defer cancel()

	// A full queue has no room for another entry. The wait for room is repeated rather than a
	// blocking send, which would hold the lock that close needs.
	for _, queue := range queues {
		done := make(chan struct{})
		for !q.addMark(queue, done) {
			select {
			case <-time.After(asyncTimeout / 100):
			case <-ctx.Done():
				return errNotDrained
			}
		}

		select {
		case <-done:
		case <-ctx.Done():
			return errNotDrained
		}
	}
	return nil
}

// addMark queues an entry that is no check, or reports that there is no room. A closed queue takes
// nothing more, so it then counts as reached; close itself waits for the rest.
func (q *asyncQueue) addMark(queue chan<- *asyncCheck, done chan struct{}) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		close(done)
		return true
	}

	select {
	case queue <- &asyncCheck{done: done}:
		return true
	default:
		return false
	}
}

var ErrAsync = errors.New("shadow: close: a custom limiter does not return")

// close gives the workers asyncTimeout to make the queued checks. The rest is skipped, and
// counted as that. It may be called more than once, and concurrently, as by Close and by a reload.
// After an error a worker is left behind in a call that has not returned, and counts that one check
// when it does.
func (q *asyncQueue) close(ctx context.Context) error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		if queues := q.queues.Load(); queues != nil {
			for _, queue := range queues {
				close(queue)
			}
		}
	}
	q.mu.Unlock()

	defer q.stop()
	if clock.Within(ctx, asyncTimeout, q.done.Wait) {
		return nil
	}

	// Calls that heed their context return now. The second wait does not depend on ctx: it
	// is short, and a worker that ends leaves no goroutine behind.
	q.stop()
	if clock.Within(context.WithoutCancel(ctx), asyncTimeout, q.done.Wait) {
		return nil
	}

	// Nothing else takes the checks behind such a call. The context is over, so each is skipped.
	for _, queue := range q.queues.Load() {
		q.work(queue)
	}
	return ErrAsync
}

// CloseAsync closes the queues of policies, all at the same time, and returns their errors in
// the policies' order. One after another, a few limiters that hang would take longer than a
// process has to end.
func CloseAsync(ctx context.Context, policies []*Policy) []error {
	return eachAsync(policies, func(q *asyncQueue) error { return q.close(ctx) })
}

func eachAsync(policies []*Policy, do func(*asyncQueue) error) []error {
	failed := make([]error, len(policies))
	var done sync.WaitGroup
	for i, p := range policies {
		if p.progress.async != nil {
			done.Go(func() { failed[i] = do(p.progress.async) })
		}
	}
	done.Wait()
	return failed
}
