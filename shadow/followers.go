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
	followQueue   = 256 // charges waiting, per worker
	followBatch   = 32  // judged by one round trip, where the side is in a store
	followTimeout = time.Second
)

// followers judge a policy's side that is not enforced and cannot be judged together
// with the enforced one, off the requests' path. A key's charges stay in order, for
// one worker judges them all. A side that hangs holds up its own policy's followers
// alone. Workers end with close.
type followers struct {
	queues []chan *followed
	done   sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context // of all calls; over when close gives up waiting

	mu     sync.RWMutex // guards closed against sends to closed queues
	closed bool
}

// followed is a charge whose enforced side has answered.
type followed struct {
	charge algorithms.Charge
	hit    hit
	at     time.Time // by the clock that evidence is read by
	local  time.Time // by this process's clock, when it has answered
	into   [2]algorithms.Observation
	done   chan<- struct{} // set in what drain queues, which is no charge
}

// spares are used again: queues of charges would take half a megabyte a policy.
var spares = sync.Pool{New: func() any { return new(followed) }}

func (f *followed) role() algorithms.Role { return f.charge.Enforced.Other() }

func newFollowers() *followers {
	f := &followers{queues: make([]chan *followed, followWorkers)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	for i := range f.queues {
		f.queues[i] = make(chan *followed, followQueue)
		f.done.Go(func() { f.work(f.queues[i]) })
	}
	return f
}

// follow queues a side, or reports that there is no room.
func (f *followers) follow(job followed) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return false
	}
	kept := spares.Get().(*followed)
	*kept = job
	kept.charge.Key = strings.Clone(job.charge.Key) // it may be part of a request's buffer
	select {
	case f.queues[job.hit.hash%uint64(len(f.queues))] <- kept:
		return true
	default:
		return false
	}
}

// waiting returns how many charges are queued.
func (f *followers) waiting() (n int) {
	if f == nil {
		return 0
	}
	for _, q := range f.queues {
		n += len(q)
	}
	return n
}

// work judges what is queued: one by one by a limiter, in batches by a store.
func (f *followers) work(queue <-chan *followed) {
	jobs := make([]followed, 0, followBatch)
	take := func(job *followed) bool {
		jobs = append(jobs, *job)
		*job = followed{}
		spares.Put(job)
		return jobs[len(jobs)-1].done == nil
	}
	for job := range queue {
		jobs = jobs[:0]
		for more := take(job); more && len(jobs) < followBatch; {
			select {
			case next, open := <-queue:
				more = open && take(next)
			default:
				more = false
			}
		}
		last := len(jobs) - 1
		if drained := jobs[last].done; drained != nil {
			f.judge(jobs[:last])
			close(drained)
		} else {
			f.judge(jobs)
		}
		clear(jobs)
	}
}

// drain waits until all that is queued now has been judged, for a moment.
func (f *followers) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*followTimeout)
	defer cancel()
	for _, q := range f.queues {
		done := make(chan struct{})
		for !f.mark(q, done) {
			select {
			case <-time.After(followTimeout / 100):
			case <-ctx.Done():
				return errBehind
			}
		}
		select {
		case <-done:
		case <-ctx.Done():
			return errBehind
		}
	}
	return nil
}

var errBehind = errors.New("shadow: sync: what is judged behind requests has not been yet")

// mark queues a mark, or reports that there is no room. Once closed, nothing is
// queued any more, and the mark is reached.
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

// judge judges queued sides, which may be of either role where the stage has just
// changed, and counts the outcomes.
func (f *followers) judge(jobs []followed) {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].role() == jobs[0].role() && jobs[n].hit.migration == jobs[0].hit.migration && jobs[0].hit.limiters[jobs[0].role()] == nil {
			n++
		}
		f.ask(jobs[:n])
		for i := range jobs[:n] {
			job := &jobs[i]
			job.hit.complain(job.role(), &job.into[job.role()])
			job.hit.observe(&job.charge, job.at, &job.into)
		}
		jobs = jobs[n:]
	}
}

// ask asks one side of charges, one if it is a limiter.
func (f *followers) ask(jobs []followed) {
	role, m := jobs[0].role(), jobs[0].hit.migration
	ctx, cancel := context.WithTimeout(f.ctx, followTimeout)
	defer cancel()
	switch {
	case f.ctx.Err() != nil: // close has given up on the rest
		for i := range jobs {
			jobs[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	case m.limiters[role] != nil:
		jobs[0].into[role] = m.spared(role, func() algorithms.Observation {
			return call(ctx, m.limiters[role], &jobs[0].charge, jobs[0].hit.limits[role])
		})
	default:
		askStore(ctx, m, role, jobs)
	}
	for i := range jobs {
		if f.ctx.Err() != nil && errors.Is(jobs[i].into[role].Err, context.Canceled) { // by close, before their time
			jobs[i].into[role] = algorithms.Skip(algorithms.OtherReason)
		}
	}
}

// askStore judges one side of charges by its store, each at the instant at which the
// other side was judged, as the store's own clock would have shown it. What a store
// with an open breaker does not judge is skipped.
func askStore(ctx context.Context, m *migration, role algorithms.Role, jobs []followed) {
	charges := make([]algorithms.Charge, len(jobs))
	observed := make([][2]algorithms.Observation, len(jobs))
	for i := range jobs {
		charges[i] = m.only(role, &jobs[i].charge, &jobs[i].hit)
		if charges[i].At.IsZero() {
			charges[i].At = m.stores[role].instant(jobs[i].local, m.stores[role.Other()], jobs[i].into[role.Other()].At)
		}
	}
	m.stores[role].evaluate(ctx, charges, observed)
	for i := range jobs {
		jobs[i].into[role] = observed[i][role]
	}
}

var errFollowers = errors.New("shadow: close: a limiter of your own does not return")

// closeFollowers closes those of migrations, all at a time, and returns what close
// does, in their order.
func closeFollowers(ctx context.Context, migrations []*migration) []error {
	return eachFollowers(migrations, func(f *followers) error { return f.close(ctx) })
}

// drainFollowers drains those of migrations, all at a time.
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

// close lets the workers judge what is queued, for a moment; the rest is skipped.
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
	f.stop()
	if within(context.WithoutCancel(ctx), followTimeout, f.done.Wait) {
		return nil
	}
	return errFollowers
}
