package engine

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Two limiters that are the same never differ in undisturbed time, and disturbed time is no
// evidence. Sides that share a record are always checked together. Where they share none, a check
// may reach one of them only: the recorder counts its cost, and this file tells it what no answer
// shows, that a store has lost data and that a side in this process is new.

// linger is how much longer than its state a record lives where the sides share none: a check that
// was deferred must find it. No check waits for so long.
const linger = time.Minute

// MemoryOf returns how long a side's state may depend on one check, as far as its configuration
// tells: a window, two of a counter, and the time in which a full bucket drains. The zero limit is
// of a limiter that does not tell it: a minute then stands for its window.
func MemoryOf(a algorithms.Algorithm, l algorithms.Limit) time.Duration {
	if l.Window == 0 {
		return time.Minute
	}
	if l.Requests <= 0 { // an expression decides it
		l.Requests, l.Burst = 1, 0
	}
	us := algorithms.Forgotten(algorithms.TraitsOf(a).Shape, l, 0)
	return time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
}

// inProcess says whether a side began with this process, so that it has not seen what the other
// side remembers. It does not count as evidence for the first window.
type inProcess struct {
	began time.Time   // of the process, or of the comparison if a reload has begun it later
	old   atomic.Bool // there is no such side, or it is older than a window
}

func (p *inProcess) begin(m *Policy) {
	p.began = m.progress.started
	together := !m.Spec.Apart || m.Sides[0].outlives() == m.Sides[1].outlives()
	p.old.Store(together && !m.synchronized())
}

// young reports whether a side began with this process, or with a reload, less than a window ago.
func (p *inProcess) young(o *Observations, window time.Duration) bool {
	// Config.Clock may give the instant. A custom limiter tells none.
	at := o[algorithms.Authoritative].At
	if at.IsZero() {
		at = o[algorithms.Candidate].At
	}
	if at.IsZero() {
		at = time.Now()
	}
	if at.Sub(p.began) < window {
		return true
	}
	p.old.Store(true)
	return false
}

// losses finds out whether a Redis has lost data: instances raise one counter, and a counter that
// is there no more, or lower than before, has been lost with all that was written since. It finds a
// Redis that was emptied, or restored from an older copy. It does not find each failover that loses
// the last writes, because other instances may have raised the counter again by then: those cost
// little, and need no mark. In a cluster it finds the loss of one master's data only.
type losses struct {
	raise func(context.Context) (int64, error)
	last  int64 // guarded by the goroutine that asks
}

// raiseIn raises the counter of a service in a Redis.
func raiseIn(client redis.UniversalClient, name string) func(context.Context) (int64, error) {
	key := algorithms.KeyPrefix + "{" + name + "}:raised"
	return func(ctx context.Context) (int64, error) { return client.Incr(ctx, key).Result() }
}

// found reports whether data was lost since the last call. Also a store that is new has nothing
// of what another one remembers.
func (l *losses) found(ctx context.Context) (bool, error) {
	n, err := l.raise(ctx)
	if err != nil {
		return false, err
	}
	lost := n <= l.last || n == 1
	l.last = n
	return lost, nil
}

// lossTimeout bounds the question to one store: the next one must be asked as well.
const lossTimeout = 250 * time.Millisecond

func anyApartIn(policies []*Policy, s *Store) bool {
	for _, p := range policies {
		if p.apartIn(s) {
			return true
		}
	}
	return false
}
