package shadow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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

// followers judge a policy's side that is not enforced and is not judged together with the
// enforced one, behind the requests. A key's charges stay in order, for one worker judges
// them all. A side that hangs holds up its own policy's followers alone. Workers begin with
// the first charge, since most policies never need them, and end with close.
type followers struct {
	queues atomic.Pointer[[followWorkers]chan *followed] // nil until the first charge
	begin  sync.Once
	done   sync.WaitGroup     // of the workers
	stop   context.CancelFunc // ends ctx
	ctx    context.Context    // of all calls; over when close gives up waiting
	// unsettled is how many charges are queued or being judged. Requests write it, but only
	// where they queue a charge anyway.
	unsettled atomic.Int64

	mu     sync.RWMutex // guards closed against sends to closed queues
	closed bool
}

// followed is a charge whose enforced side has answered.
type followed struct {
	charge     algorithms.Charge
	evaluation evaluation
	at         time.Time       // by the clock that evidence is read by
	answered   time.Time       // by this process's clock, when the enforced side has answered
	into       observations    // the enforced side's is there; the worker adds the other
	waited     bool            // it was ahead of its predecessors, and left unjudged
	done       chan<- struct{} // set in the marks that drain queues, which are no charges
}

// jobs are used again: queues full of new ones would take half a megabyte a policy.
var jobs = sync.Pool{New: func() any { return new(followed) }}

// role is the side that follows.
func (f *followed) role() algorithms.Role { return f.charge.Enforced.Other() }

// side is the side that follows.
func (f *followed) side() *side { return &f.evaluation.sides[f.role()] }

func newFollowers() *followers {
	f := &followers{}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// start makes the queues and starts their workers.
func (f *followers) start() {
	var queues [followWorkers]chan *followed
	for i := range queues {
		queues[i] = make(chan *followed, followQueue)
		w := worker{followers: f, queue: queues[i]}
		f.done.Go(w.work)
	}
	f.queues.Store(&queues)
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
	f.begin.Do(f.start)

	// The key may be part of a request's buffer, which is used again.
	kept := jobs.Get().(*followed)
	*kept = *job
	kept.charge.Key = strings.Clone(job.charge.Key)

	// It is counted first: a worker may be done with it before this goroutine goes on.
	f.unsettled.Add(1)

	// The hash gives each key one worker, and so keeps its charges in order.
	select {
	case f.queues.Load()[job.evaluation.hash%followWorkers] <- kept:
		return true
	default:
		f.unsettled.Add(-1)
		*kept = followed{}
		jobs.Put(kept)
		return false
	}
}

// busy reports whether a charge is queued or being judged.
func (f *followers) busy() bool { return f != nil && f.unsettled.Load() > 0 }

// waiting returns how many charges are queued; 0 for nil, which has no queue.
func (f *followers) waiting() (n int) {
	if f == nil {
		return 0
	}
	if queues := f.queues.Load(); queues != nil {
		for _, q := range queues {
			n += len(q)
		}
	}
	return n
}

// drain waits until all charges that are queued now have been judged, for 2 s at most.
func (f *followers) drain(ctx context.Context) error {
	queues := f.queues.Load()
	if queues == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*followTimeout)
	defer cancel()

	// A full queue has no room for a mark. The wait for room is repeated rather than a
	// blocking send, which would hold the lock that close needs.
	for _, q := range queues {
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
		if m.progress.followers != nil {
			done.Go(func() { failed[i] = do(m.progress.followers) })
		}
	}
	done.Wait()
	return failed
}

// close gives the workers followTimeout to judge the queued charges. The rest is skipped, and
// counted as that. It may be called more than once, and concurrently, as by Close and by a reload.
// After an error a worker is left behind in a call that has not returned, and counts that one charge
// when it does.
func (f *followers) close(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		if queues := f.queues.Load(); queues != nil {
			for _, q := range queues {
				close(q)
			}
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

	// Nothing else takes the charges behind such a call. The context is over, so each is skipped.
	for _, q := range f.queues.Load() {
		w := worker{followers: f, queue: q}
		w.work()
	}
	return errFollowers
}
