package shadow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Bounds of what follows behind requests.
const (
	followWorkers = 4
	followQueue   = 1024 // charges waiting, per worker
	followTimeout = time.Second
)

// followers judge sides that are not enforced and cannot be judged together with
// the enforced one, off the requests' path. A key's charges stay in order, for
// one worker judges them all. Workers end with close.
type followers struct {
	engine *engine
	queues []chan followed
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
	at     time.Time
	into   [2]algorithms.Observation
}

// newFollowers starts the workers if any migration can need them.
func newFollowers(e *engine, migrations []*migration) *followers {
	f := &followers{engine: e}
	f.ctx, f.stop = context.WithCancel(context.Background())
	needed := false
	for _, m := range migrations {
		needed = needed || m.limiters != [2]Limiter{}
	}
	if !needed {
		return f
	}
	f.queues = make([]chan followed, followWorkers)
	for i := range f.queues {
		f.queues[i] = make(chan followed, followQueue)
		f.done.Go(func() { f.work(f.queues[i]) })
	}
	return f
}

// follow queues the side that is not enforced, or counts the comparison as
// inconclusive where there is no room.
func (f *followers) follow(c *algorithms.Charge, h *hit, at time.Time, o *[2]algorithms.Observation) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.closed && len(f.queues) > 0 {
		job := followed{*c, *h, at, *o}
		job.charge.Key = strings.Clone(c.Key) // it may be part of a request's buffer
		select {
		case f.queues[h.hash%uint64(len(f.queues))] <- job:
			return
		default:
		}
	}
	o[c.Enforced.Other()] = algorithms.Observation{Err: divergence.ErrSkipped}
	h.recorder.Observe(c.Key, h.hash, at, o, h.expected)
}

// waiting returns how many charges are queued.
func (f *followers) waiting() (n int) {
	for _, q := range f.queues {
		n += len(q)
	}
	return n
}

func (f *followers) work(queue <-chan followed) {
	for job := range queue {
		f.judge(&job)
	}
}

func (f *followers) judge(job *followed) {
	ctx, cancel := context.WithTimeout(f.ctx, followTimeout)
	defer cancel()
	role := job.charge.Enforced.Other()
	h := &job.hit
	if l := h.limiters[role]; f.ctx.Err() != nil {
		job.into[role] = algorithms.Observation{Err: divergence.ErrSkipped} // close has given up on the rest
	} else if l != nil {
		job.into[role] = call(ctx, l, &job.charge, h.limits[role])
	} else {
		job.into[role] = f.engine.alone(ctx, &job.charge, h, role)
	}
	h.complain(role, job.into[role].Err)
	h.recorder.Observe(job.charge.Key, h.hash, job.at, &job.into, h.expected)
}

// alone judges one side of a charge by the pair.
func (e *engine) alone(ctx context.Context, c *algorithms.Charge, h *hit, role algorithms.Role) algorithms.Observation {
	charge := *c
	charge.Enforced = role
	charge.Sides = [2]algorithms.Side{}
	charge.Sides[role] = h.own[role]
	charge.Sides[role].Limit = h.limits[role]
	var o [1][2]algorithms.Observation
	if err := e.pair.Evaluate(ctx, []algorithms.Charge{charge}, o[:]); err != nil {
		return algorithms.Observation{Err: err}
	}
	return o[0][role]
}

var errFollowers = errors.New("shadow: close: a limiter of your own does not return")

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
