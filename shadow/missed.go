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
	any atomic.Bool // something is remembered: a calm policy reads no more than this

	mu    sync.Mutex // guards the fields below; taken only after something was missed
	until map[uint64]int64
	all   int64 // until when all keys are taken for missed, because a key found no room
	swept time.Time
}

// note remembers a key until an instant in microseconds.
func (m *missed) note(hash uint64, until int64) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.any.Store(true)
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

// of returns until when a key is taken for missed, in microseconds; 0 if it is not.
func (m *missed) of(hash uint64) int64 {
	if !m.any.Load() {
		return 0
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.all, m.until[hash])
}

// onlyOneSide reports whether a charge may have reached one side and not the other. An error
// of a limiter means that it has decided nothing, unless the time was over or its store did
// not answer: then the charge may have been spent.
func onlyOneSide(o *observations) bool {
	for role := range o {
		if uncertain(&o[role]) {
			return true
		}
	}
	return (o[0].Status == algorithms.Judged) != (o[1].Status == algorithms.Judged)
}

// uncertain reports whether a side may have been charged although it has no answer.
func uncertain(o *algorithms.Observation) bool {
	return o.Status == algorithms.Failed && (failedByStore(o) ||
		errors.Is(o.Err, context.DeadlineExceeded) || errors.Is(o.Err, context.Canceled))
}
