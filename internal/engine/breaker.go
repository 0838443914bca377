package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// When a breaker opens, and when it tries again. Each pause is spread by a fifth to each
// side, so that instances do not all come back at once.
const (
	// Failures in a row: a count of failures among successes would open the breaker of a
	// busy store for a few isolated ones.
	breakAfter  = 5
	breakWithin = 10 * time.Second
	// The first pause is short: most failures in a row are a moment's, such as a fork or a
	// failover. It doubles with every trial that fails, so that a dead store costs a
	// request its timeout only now and then.
	breakFirst = 100 * time.Millisecond
	breakMost  = 30 * time.Second
)

// errNotAsked tells a breaker that the request is no sign of health or failure: nothing was
// asked, or it had no time to answer.
var errNotAsked = errors.New("shadow: not asked")

// breaker keeps requests off a store or a limiter that fails again and again, except for
// one that tries it after each pause. It may be used concurrently. A nil breaker is never
// open.
//
// One stall makes all requests in flight fail, which may be hundreds. They are one failure:
// a failure counts only if none was counted since its request began.
type breaker struct {
	changed func(open bool) // called when the breaker opens or closes, by one request
	born    time.Time       // times below count from here: they do not follow a wall clock that is set

	state   atomic.Int32  // written under mu; read without it, for a calm request must not write what others read
	counted atomic.Uint64 // failures counted since the beginning; written under mu
	due     atomic.Int64  // when the next request may try, if the breaker is open; ns since born

	mu     sync.Mutex
	row    streak        // counted failures since the last success, without the time spent on waiting
	waited time.Duration // for answers, by the requests that were counted
	pause  time.Duration // the last one; 0 while the breaker is closed
}

// The values of breaker.state.
const (
	calm    = iota // the last answer was a success
	wary           // the row is not empty
	tripped        // the breaker is open
)

// newBreaker calls changed when the breaker opens or closes.
func newBreaker(changed func(open bool)) *breaker {
	return &breaker{changed: changed, born: time.Now(), row: streak{most: breakAfter}}
}

// attempt is one request's leave to ask. finish ends it.
type attempt struct {
	counted uint64 // failures counted when the request began
	began   time.Time
	trial   bool
}

// hurried reports whether the caller's context has ended the attempt, or is about to, before
// the attempt had that much time.
func (a attempt) hurried(ctx context.Context, fullTime time.Duration) bool {
	if time.Since(a.began) >= fullTime {
		return false
	}

	// A connection has the deadline, too, and its timer may fire before the context's.
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && time.Until(deadline) < time.Millisecond
}

// allow reports whether the request may ask. finish must follow if it may.
func (b *breaker) allow() (attempt, bool) {
	a := attempt{counted: b.counted.Load(), began: time.Now()}
	if b.state.Load() != tripped {
		return a, true
	}

	// One request wins the trial by moving the time of the next one. If it never ends, as
	// with a limiter that hangs, another request tries after the longest pause.
	now, due := a.began.Sub(b.born), b.due.Load()
	a.trial = int64(now) >= due && b.due.CompareAndSwap(due, int64(now+breakMost))
	return a, a.trial
}

// finish ends what allow began, and reports whether a failure was counted.
func (b *breaker) finish(a attempt, err error) (counted bool) {
	switch {
	case err == nil:
		b.succeed()
		return false

	// A caller that leaves says nothing of the store or limiter that it has asked. Its
	// trial is not lost to the others, and does not lengthen the pause.
	case errors.Is(err, errNotAsked):
		if a.trial {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.rest(time.Since(b.born))
		}
		return false
	}
	return b.fail(a)
}

// succeed closes the breaker and ends the row of failures.
func (b *breaker) succeed() {
	if b.state.Load() == calm {
		return
	}

	b.mu.Lock()
	closes := b.state.Swap(calm) == tripped
	b.row.clear()
	b.pause = 0
	b.mu.Unlock()

	// The lock is free: no other request may wait for a log that hangs.
	if closes {
		b.changed(false)
	}
}

// fail counts a failure, unless another was counted since its request began.
func (b *breaker) fail(a attempt) (counted bool) {
	b.mu.Lock()
	isOpen := b.state.Load() == tripped

	// While the breaker opens, a request may read the new count before the new state, and ask. That is no trial, and
	// its failure is one of the stall that opens the breaker.
	if a.counted != b.counted.Load() || isOpen && !a.trial {
		b.mu.Unlock()
		return false
	}
	now, opens := time.Since(b.born), false
	b.counted.Add(1)

	if isOpen {
		b.pause = min(2*b.pause, breakMost)
		b.rest(now)
	} else {
		// Waiting for answers is no part of the ten seconds. A client with a timeout of
		// three would otherwise never fail five times within them.
		b.waited += now - a.began.Sub(b.born)
		b.state.Store(wary)
		if b.row.add(now-b.waited) <= breakWithin {
			b.pause, opens = breakFirst, true
			b.rest(now)
			b.state.Store(tripped)
		}
	}
	b.mu.Unlock()

	if opens {
		b.changed(true)
	}
	return true
}

// rest puts the next trial off by the pause. Requires b.mu.
func (b *breaker) rest(now time.Duration) {
	if b.pause > 0 {
		b.due.Store(int64(now + b.pause - b.pause/5 + rand.N(2*b.pause/5)))
	}
}

// resting reports whether nothing is asked for a while, not even to try. Code that decides
// whether to ask at all uses it, and not open: without a trial the breaker never closes.
func (b *breaker) resting() bool { return b.open() && int64(time.Since(b.born)) < b.due.Load() }

// open reports whether requests are kept off, except for one that tries. It is what an
// operator wants to see, and decides nothing.
func (b *breaker) open() bool { return b != nil && b.state.Load() == tripped }

// streak is the last few times at which something happened.
type streak struct {
	most  int // how many are kept, at least 1
	times []time.Duration
}

// add notes a time, none of which is before the one before, and returns the span of the
// last most of them: forever while there are fewer.
func (s *streak) add(now time.Duration) (span time.Duration) {
	if len(s.times) == s.most {
		s.times = s.times[:copy(s.times, s.times[1:])]
	}
	s.times = append(s.times, now)

	if len(s.times) < s.most {
		return forever
	}
	return now - s.times[0]
}

// forever is longer than any span.
const forever = time.Duration(1<<63 - 1)

// clear forgets the times. The next failure is the first of a row again.
func (s *streak) clear() { s.times = s.times[:0] }
