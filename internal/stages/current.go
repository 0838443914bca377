package stages

import (
	"slices"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Current is the state of a policy that an instance applies. The fleet's part of the instance
// writes it, one goroutine at a time, and requests read it without waiting.
type Current struct {
	state atomic.Pointer[State]
	heard clock.Moment              // the store was last heard of
	begun [len(Stages)]atomic.Int64 // how often each stage was applied
}

// NewCurrent returns the state before any was heard of: the authoritative is enforced.
func NewCurrent() *Current {
	a := &Current{}
	a.state.Store(&State{Stage: Shadow})
	return a
}

// Copy returns what another policy file of the same name begins with: the stage stays as it was until
// the fleet has heard of the new fingerprint.
func (a *Current) Copy() *Current {
	c := NewCurrent()
	c.state.Store(a.state.Load())
	c.heard.Copy(&a.heard)
	return c
}

// State returns the applied state, which must not be changed.
func (a *Current) State() *State { return a.state.Load() }

// Heard notes that the store was heard of.
func (a *Current) Heard() { a.heard.Note() }

// Begun returns how often a stage of Stages was applied.
func (a *Current) Begun(stage int) int64 { return a.begun[stage].Load() }

// Apply takes a state that supersedes the applied one, and reports whether its evidence is another one.
func (a *Current) Apply(s State) (restarted bool) {
	before := a.state.Load()
	if !s.Supersedes(*before) {
		return false
	}

	// Requests keep the pointer, so a stored state is replaced and never changed.
	a.state.Store(&s)
	if i := slices.Index(Stages[:], s.Stage); i >= 0 && s.Stage != before.Stage {
		a.begun[i].Add(1)
	}

	// The evidence of another beginning has another name in the ledger.
	return !s.Since.Equal(before.Since)
}

// CutOff reports whether a rollback may not reach this instance, so that it must leave a canary by itself.
func (a *Current) CutOff() bool { return !a.heard.Within(LeaveCanaryAfter) }

// Enforced returns the side that an instance of a fingerprint enforces for the key at a position.
func (a *Current) Enforced(fingerprint string, at evidence.Position) algorithms.Role {
	// Loaded once: the stage, the percentage and the fingerprint must be of one state.
	s := a.state.Load()

	// A canary that is cut off from the store cannot be rolled back by it.
	if s.Stage == Canary && s.Fingerprint == fingerprint && a.CutOff() {
		return algorithms.Authoritative
	}
	return s.Enforced(fingerprint, at)
}
