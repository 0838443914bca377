package shadow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// missedSlots bounds the memory of a policy's missed charges, to 200 kB. Keys that share a slot share
// what it says: of a thousand keys that have missed a charge, an eighth of the others is taken
// for missed, too.
const missedSlots = 8192

// missed remembers which keys of a policy had a charge that only one side got. It is for
// policies with a foreign limiter, which holds no number; parts of records tell by their
// own numbers. It may be used concurrently, and a request takes no lock unless a side has
// not answered.
type missed struct {
	slots atomic.Pointer[[missedSlots]missedSlot] // nil until the first charge that is missed

	// pending are the keys with a charge that may still run: its side has not answered in time,
	// and nothing else since. Requests read anyPending only.
	anyPending atomic.Bool
	mu         sync.Mutex // guards pending
	pending    map[uint64]struct{}
}

// missedSlot is the memory of the keys that share it. Instants are in microseconds.
type missedSlot struct {
	// until is when no side's state depends on the missed charge any more. It stays, until the
	// key has been idle: the sides may be out of phase for so long. 0 says that they are not.
	until atomic.Int64
	idle  atomic.Int64 // from when on both sides are as if unused
	// balance is the cost that the candidate has admitted since then and the authoritative has
	// not, less the cost of which the opposite is true.
	balance atomic.Int64
}

// slot returns the memory of a key; nil if no key has missed a charge.
func (m *missed) slot(hash uint64) *missedSlot {
	slots := m.slots.Load()
	if slots == nil {
		return nil
	}
	return &slots[hash%missedSlots]
}

// note remembers a key until an instant in microseconds.
func (m *missed) note(hash uint64, until int64) {
	if m.slots.Load() == nil {
		m.slots.CompareAndSwap(nil, new([missedSlots]missedSlot))
	}

	// Another missed charge moves the sides against each other once more.
	s := m.slot(hash)
	s.balance.Store(0)
	raise(&s.idle, until)
	raise(&s.until, until)
}

// raise stores the larger one of a value and the value that is there.
func raise(into *atomic.Int64, value int64) {
	for {
		before := into.Load()
		if before >= value || into.CompareAndSwap(before, value) {
			return
		}
	}
}

// mostPending bounds the keys with a charge that may still run.
const mostPending = 4096

// notePending remembers a key until an instant, and until the instant of the next noneIsPending.
func (m *missed) notePending(hash uint64, until int64) {
	m.note(hash, until)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		m.pending = map[uint64]struct{}{}
	}
	if len(m.pending) < mostPending {
		m.pending[hash] = struct{}{}
	}
	m.anyPending.Store(true)
}

// rememberPending is called when both sides answer again: pending charges have run by now. It remembers
// their keys until an instant in microseconds, and no key is pending any more.
func (m *missed) rememberPending(until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hash := range m.pending {
		m.note(hash, until)
	}

	// Beyond the bound it is not known which keys are pending.
	if len(m.pending) >= mostPending {
		for hash := range uint64(missedSlots) {
			m.note(hash, until)
		}
	}
	clear(m.pending)
	m.anyPending.Store(false)
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
