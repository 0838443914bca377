package shadow

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// migration is one policy at work: its sides, its stage, and what is counted.
type migration struct {
	spec      promotion.Spec
	limiters  [2]Limiter         // by role; nil where the side is an algorithm
	own       [2]algorithms.Side // the others, without their limits
	candidate bool               // there is one; else the policy is a plain limiter
	onFailure string
	recorder  *divergence.Recorder

	state      atomic.Pointer[promotion.State] // applied
	heard      atomic.Int64                    // when the store was last heard of, ns of this clock
	assessment atomic.Pointer[promotion.Assessment]
	flushed    atomic.Int64 // when the ledger was last written, us
	errors     atomic.Int64 // requests whose expressions failed
	fallbacks  atomic.Int64 // decisions by the rule for failures
	log        *slog.Logger
	complained [2]atomic.Int64 // of a side, when last, ns of this clock
}

// complainEvery bounds how often a failing side is logged.
const complainEvery = time.Minute

// complain logs that a side fails, now and then.
func (m *migration) complain(role algorithms.Role, err error) {
	if err == nil || errors.Is(err, algorithms.ErrAbsent) {
		return
	}
	now, last := time.Now().UnixNano(), m.complained[role].Load()
	if time.Duration(now-last) < complainEvery || !m.complained[role].CompareAndSwap(last, now) {
		return
	}
	m.log.Warn("shadowlimit: a limiter fails; more of it in shadowlimit_decisions_total and shadowlimit_fallback_decisions_total", "policy", m.spec.Policy, "side", role.String(), "error", err)
}

func newMigration(spec promotion.Spec, secret []byte) *migration {
	m := &migration{spec: spec, candidate: true, log: slog.Default(), onFailure: policies.FailLocal, recorder: divergence.NewRecorder(secret)}
	m.state.Store(&promotion.State{Stage: promotion.Shadow})
	return m
}

// id names the migration's evidence in the ledger. What an instance of another
// epoch sees is nobody's.
func (m *migration) id() divergence.ID {
	s := *m.state.Load()
	s.Epoch = m.spec.Epoch
	return s.LedgerID(m.spec.Policy)
}

// enforced returns the side to obey for a key of that hash. Cut off from the
// store, a canary returns to the known good.
func (m *migration) enforced(hash uint64) algorithms.Role {
	s := m.state.Load()
	if !m.candidate || s.Stage == promotion.Canary && m.cutOff() {
		return algorithms.Authoritative
	}
	return s.Enforced(m.spec.Epoch, hash)
}

// cutOffAfter is how long a canary goes on without word from the store.
const cutOffAfter = 15 * time.Second

func (m *migration) cutOff() bool {
	return time.Duration(time.Now().UnixNano()-m.heard.Load()) > cutOffAfter
}

// apply takes a state that is over the applied one.
func (m *migration) apply(s promotion.State) {
	before := m.state.Load()
	if !s.Over(*before) {
		return
	}
	m.state.Store(&s)
	if !s.Since.Equal(before.Since) {
		m.recorder.Restart()
	}
}
