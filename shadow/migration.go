package shadow

import (
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
}

func newMigration(spec promotion.Spec, secret []byte) *migration {
	m := &migration{spec: spec, candidate: true, onFailure: policies.FailLocal, recorder: divergence.NewRecorder(secret)}
	m.state.Store(&promotion.State{Stage: promotion.Shadow})
	return m
}

// id names the migration in the ledger.
func (m *migration) id() divergence.ID {
	return divergence.ID{Policy: m.spec.Policy, Epoch: m.spec.Epoch}
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
	if s.Over(*m.state.Load()) {
		m.state.Store(&s)
	}
}
