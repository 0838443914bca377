package engine

import (
	"context"
	"errors"
	"fmt"
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

// begunAsCopy reports whether a candidate always begins as a copy of the authoritative: one record,
// one algorithm, one window. A log is copied only if it is short.
func (p *Policy) begunAsCopy() bool {
	a, c := &p.Sides[algorithms.Authoritative], &p.Sides[algorithms.Candidate]
	return a.shape != algorithms.SlidingLog && p.judgedTogether() && a.algorithm.Algorithm.Name() == c.algorithm.Algorithm.Name() && a.Window == c.Window
}

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

// Grow makes sides of this process older than a window. Tests call it.
func (p *Policy) Grow() { p.inProcess.old.Store(true) }

// outlives reports whether the side's state outlives this process. A custom limiter is taken for one of
// this process: where it keeps its state is not known.
func (s *Side) outlives() bool { return s.store != nil && s.store.remote() }

// young reports whether a side began with this process, or with a reload, less than a window ago.
func (p *Policy) young(o *Observations) bool {
	// Config.Clock may give the instant. A custom limiter tells none.
	at := o[algorithms.Authoritative].At
	if at.IsZero() {
		at = o[algorithms.Candidate].At
	}
	if at.IsZero() {
		at = time.Now()
	}
	if at.Sub(p.inProcess.began) < p.Spec.Window {
		return true
	}
	p.inProcess.old.Store(true)
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

// CheckStores marks the evidence of policies of which a store has lost data. Its error is what a
// store has refused: one that does not answer is reported where checks fail.
func (e *Engine) CheckStores(ctx context.Context) error {
	policies := e.Plan.Load().Policies
	var refused []error
	for _, s := range e.Stores {
		s.nodes.forgetGone(ctx)

		// A store that is known to be dead would cost its timeout in each round.
		if s.losses == nil || s.nodes.resting() || !anyApartIn(policies, s) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, lossTimeout)
		lost, err := s.losses.found(bounded)
		cancel()
		if answer := redis.Error(nil); errors.As(err, &answer) {
			refused = append(refused, fmt.Errorf("store %s: %w", loggedStore(s.name), err))
		}
		for _, p := range policies {
			if lost && p.apartIn(s) {
				p.progress.Recorder.Mark(e.now())
			}
		}
	}
	return errors.Join(refused...)
}

// apartIn reports whether a side is in a store that the other side does not share.
func (p *Policy) apartIn(s *Store) bool {
	return p.Spec.Apart && (p.Sides[0].store == s || p.Sides[1].store == s)
}

func anyApartIn(policies []*Policy, s *Store) bool {
	for _, p := range policies {
		if p.apartIn(s) {
			return true
		}
	}
	return false
}
