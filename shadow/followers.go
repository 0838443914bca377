package shadow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Bounds of what follows behind requests, per policy.
const (
	followWorkers = 4
	followQueue   = 256 // charges waiting, per worker; beyond that they are inconclusive
	followBatch   = 32  // judged by one round trip, where the side is in a store
	// followTimeout is for one batch or one call of a foreign limiter. No request waits for
	// it, so it is longer than callTimeout.
	followTimeout = time.Second
)

// followers judge a policy's side that is not enforced and cannot be judged together
// with the enforced one, behind the requests. A key's charges stay in order, for one
// worker judges them all. A side that hangs holds up its own policy's followers alone.
// Workers end with close.
type followers struct {
	queues []chan *followed   // one for each worker
	done   sync.WaitGroup     // of the workers
	stop   context.CancelFunc // ends ctx
	ctx    context.Context    // of all calls; over when close gives up waiting

	mu     sync.RWMutex // guards closed against sends to closed queues
	closed bool
}

// followed is a charge whose enforced side has answered.
type followed struct {
	charge     algorithms.Charge
	evaluation evaluation
	at         time.Time       // by the clock that evidence is read by
	local      time.Time       // by this process's clock, when the enforced side has answered
	into       observations    // the enforced side's is there; the worker adds the other
	done       chan<- struct{} // set in the marks that drain queues, which are no charges
}

// jobs are used again: queues full of new ones would take half a megabyte a policy.
var jobs = sync.Pool{New: func() any { return new(followed) }}

// role is the side that follows.
func (f *followed) role() algorithms.Role { return f.charge.Enforced.Other() }

// side is the side that follows.
func (f *followed) side() *side { return &f.evaluation.sides[f.role()] }

func newFollowers() *followers {
	f := &followers{queues: make([]chan *followed, followWorkers)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	for i := range f.queues {
		f.queues[i] = make(chan *followed, followQueue)
		f.done.Go(func() { f.work(f.queues[i]) })
	}
	return f
}

// follow queues a copy of a job, or reports that there is no room. It never waits: it is
// called in the request.
func (f *followers) follow(job *followed) bool {
	// Requests share the lock. It keeps close from closing a queue under a send, which
	// would panic in the request.
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return false
	}

	// The key may be part of a request's buffer, which is used again.
	kept := jobs.Get().(*followed)
	*kept = *job
	kept.charge.Key = strings.Clone(job.charge.Key)

	// The hash gives each key one worker, and so keeps its charges in order.
	select {
	case f.queues[job.evaluation.hash%uint64(len(f.queues))] <- kept:
		return true
	default:
		return false
	}
}

// waiting returns how many charges are queued; 0 for nil, which has no queue.
func (f *followers) waiting() (n int) {
	if f == nil {
		return 0
	}
	for _, q := range f.queues {
		n += len(q)
	}
	return n
}

// work judges queued charges until the queue is closed.
func (f *followers) work(queue <-chan *followed) {
	taken := make([]followed, 0, followBatch)
	for first := range queue {
		taken = takeBatch(taken[:0], first, queue)

		// A mark ends a batch, and is no charge. Closing it after the judging tells drain
		// that everything before it has been recorded.
		last := len(taken) - 1
		if drained := taken[last].done; drained != nil {
			f.judge(taken[:last])
			close(drained)
		} else {
			f.judge(taken)
		}

		// A worker may wait for hours, and must not keep keys of requests alive.
		clear(taken)
	}
}

// takeBatch takes the first job and the jobs that wait behind it: as many as one round trip
// judges, and none behind a mark.
func takeBatch(taken []followed, first *followed, queue <-chan *followed) []followed {
	taken = takeJob(taken, first)

	// Only jobs that wait already: a request's evidence is not held back for others.
	for len(taken) < followBatch && taken[len(taken)-1].done == nil {
		select {
		case next, open := <-queue:
			if !open {
				return taken
			}
			taken = takeJob(taken, next)
		default:
			return taken
		}
	}
	return taken
}

// takeJob copies a job and returns its memory to the pool. The job may not be used after
// that: another request may already fill it.
func takeJob(taken []followed, job *followed) []followed {
	taken = append(taken, *job)
	*job = followed{}
	jobs.Put(job)
	return taken
}

// drain waits until all charges that are queued now have been judged, for 2 s at most.
func (f *followers) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*followTimeout)
	defer cancel()

	// A full queue has no room for a mark. The wait for room is repeated rather than a
	// blocking send, which would hold the lock that close needs.
	for _, q := range f.queues {
		done := make(chan struct{})
		for !f.mark(q, done) {
			select {
			case <-time.After(followTimeout / 100):
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

var errNotDrained = errors.New("shadow: sync: some charges behind requests have not been judged in time")

// mark queues a mark, or reports that there is no room. A closed queue takes nothing more,
// so the mark then counts as reached; close itself waits for the rest.
func (f *followers) mark(q chan<- *followed, done chan struct{}) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		close(done)
		return true
	}

	select {
	case q <- &followed{done: done}:
		return true
	default:
		return false
	}
}

// judge judges queued sides and records the outcomes. Both roles may be among them where
// the stage has just changed.
func (f *followers) judge(queued []followed) {
	for len(queued) > 0 {
		n := alike(queued)
		f.ask(queued[:n])
		for i := range queued[:n] {
			job := &queued[i]
			job.evaluation.warnFailure(job.role(), &job.into[job.role()])
			job.evaluation.record(&job.charge, job.at, &job.into)
		}
		queued = queued[n:]
	}
}

// alike returns how many of the first jobs one call judges: those of one side of one
// migration in a store, and just one where a foreign limiter is asked. Only neighbours are
// taken together: that keeps a key's charges in order.
func alike(queued []followed) int {
	first := &queued[0]
	n := 1
	if first.side().foreign != nil {
		return n
	}
	for n < len(queued) && queued[n].role() == first.role() && queued[n].evaluation.migration == first.evaluation.migration {
		n++
	}
	return n
}

// ask asks one side of charges, one charge if it is a foreign limiter.
func (f *followers) ask(queued []followed) {
	// The context is the followers' own: the request's may be over by now.
	role, s := queued[0].role(), queued[0].side()
	ctx, cancel := context.WithTimeout(f.ctx, followTimeout)
	defer cancel()

	switch {
	case f.ctx.Err() != nil: // close has given up on the rest
		for i := range queued {
			queued[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	case s.foreign != nil:
		job := &queued[0]
		job.into[role] = s.withBreaker(ctx, func() algorithms.Observation {
			return call(ctx, s.foreign, &job.charge, job.evaluation.limits[role])
		})
	default:
		askStore(ctx, role, queued)
	}

	// A call that close has interrupted had less than its time: that is no failure.
	for i := range queued {
		if f.ctx.Err() != nil && errors.Is(queued[i].into[role].Err, context.Canceled) {
			queued[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	}
}

// askStore judges one side of charges by its store, each at the instant at which the
// other side was judged, as the store's own clock would have shown it.
func askStore(ctx context.Context, role algorithms.Role, queued []followed) {
	s, other := queued[0].side(), queued[0].evaluation.sides[role.Other()].store
	charges := make([]algorithms.Charge, len(queued))
	observed := make([]observations, len(queued))

	for i := range queued {
		job := &queued[i]
		charges[i] = job.evaluation.only(role, &job.charge)

		// An instant that Config.Clock gave is for both sides as it is.
		if charges[i].At.IsZero() {
			charges[i].At = s.store.instant(job.local, other, job.into[role.Other()].At)
		}
	}

	s.store.evaluate(ctx, charges, observed)
	for i := range queued {
		queued[i].into[role] = observed[i][role]
	}
}

var errFollowers = errors.New("shadow: close: a foreign limiter does not return")

// closeFollowers closes the followers of migrations, all at the same time, and returns their
// errors in the migrations' order. One after another, a few limiters that hang would take
// longer than a process has to end.
func closeFollowers(ctx context.Context, migrations []*migration) []error {
	return eachFollowers(migrations, func(f *followers) error { return f.close(ctx) })
}

// drainFollowers drains the followers of migrations, all at the same time.
func drainFollowers(ctx context.Context, migrations []*migration) []error {
	return eachFollowers(migrations, func(f *followers) error { return f.drain(ctx) })
}

func eachFollowers(migrations []*migration, do func(*followers) error) []error {
	failed := make([]error, len(migrations))
	var done sync.WaitGroup
	for i, m := range migrations {
		if m.followers != nil {
			done.Go(func() { failed[i] = do(m.followers) })
		}
	}
	done.Wait()
	return failed
}

// close gives the workers followTimeout to judge the queued charges. The rest is skipped.
// It may be called more than once, and concurrently, as by Close and by a reload. After an
// error a worker is left behind in a call that has not returned.
func (f *followers) close(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		for _, q := range f.queues {
			close(q)
		}
	}
	f.mu.Unlock()

	defer f.stop()
	if within(ctx, followTimeout, f.done.Wait) {
		return nil
	}

	// Calls that heed their context return now. The second wait does not depend on ctx: it
	// is short, and a worker that ends leaves no goroutine behind.
	f.stop()
	if within(context.WithoutCancel(ctx), followTimeout, f.done.Wait) {
		return nil
	}
	return errFollowers
}
