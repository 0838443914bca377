package shadow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// mostMissed bounds the keys that are remembered, per policy: about 200 kB.
const mostMissed = 4096

// missed remembers which keys of a policy had a charge that only one side got. It is for
// policies with a foreign limiter, which holds no number; parts of records tell by their
// own numbers. It may be used concurrently.
type missed struct {
	// A calm policy reads no more than these two, and takes no lock. They are written under mu.
	last    atomic.Int64 // until when any key is taken for missed, in microseconds
	anyLate atomic.Bool

	mu    sync.Mutex // guards the fields below
	until map[uint64]int64
	all   int64 // until when all keys are taken for missed, because a key found no room
	swept time.Time
	// late are the keys with a charge that may still run: its side has not answered in time,
	// and nothing else since.
	late map[uint64]struct{}
}

// note remembers a key until an instant in microseconds.
func (m *missed) note(hash uint64, until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked(hash, until)
}

// noteLate remembers a key until an instant, and until the instant of the next caughtUp.
func (m *missed) noteLate(hash uint64, until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked(hash, until)

	if m.late == nil {
		m.late = map[uint64]struct{}{}
	}
	if len(m.late) < mostMissed {
		m.late[hash] = struct{}{}
	}
	m.anyLate.Store(true)
}

// caughtUp notes that both sides answer again: late charges have run by now. It remembers
// those keys until an instant in microseconds.
func (m *missed) caughtUp(until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hash := range m.late {
		m.noteLocked(hash, until)
	}

	// Beyond the bound it is not known which keys are late.
	if len(m.late) >= mostMissed {
		m.all = max(m.all, until)
	}
	clear(m.late)
	m.anyLate.Store(false)
}

// noteLocked requires m.mu.
func (m *missed) noteLocked(hash uint64, until int64) {
	m.last.Store(max(m.last.Load(), until))
	if m.until == nil {
		m.until = map[uint64]int64{}
	}
	if _, known := m.until[hash]; !known && len(m.until) >= mostMissed && !m.sweep() {
		m.all = max(m.all, until)
		return
	}
	m.until[hash] = max(m.until[hash], until)
}

// sweep drops the keys whose time is over, and reports whether there is room now. It looks
// at all of them, so it does that once a second at most. Requires m.mu.
func (m *missed) sweep() bool {
	now := time.Now()
	if now.Sub(m.swept) < time.Second {
		return false
	}
	m.swept = now

	for hash, until := range m.until {
		if until <= now.UnixMicro() {
			delete(m.until, hash)
		}
	}
	return len(m.until) < mostMissed
}

// has reports whether a key is taken for missed at an instant in microseconds.
func (m *missed) has(hash uint64, at int64) bool {
	return at < m.last.Load() && at < m.of(hash)
}

// of returns until when a key is taken for missed, in microseconds; 0 if it never was.
func (m *missed) of(hash uint64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.all, m.until[hash])
}

// mostLate is how long after the other side a foreign limiter may be asked or answer. It goes
// by a clock of its own: after a longer time it may be in another window.
const mostLate = time.Second

// onlyOneSide reports whether a charge has reached one side and not the other.
func onlyOneSide(o *observations) bool {
	return (o[0].Status == algorithms.Judged) != (o[1].Status == algorithms.Judged)
}

// uncertain reports whether a side may have been charged although it has no answer. An error
// of a limiter means that it has decided nothing, unless the time was over or its store did
// not answer: then the charge may have been spent, or may still be.
func uncertain(o *algorithms.Observation) bool {
	return o.Status == algorithms.Failed && (failedByStore(o) ||
		errors.Is(o.Err, context.DeadlineExceeded) || errors.Is(o.Err, context.Canceled))
}
