package shadow

import (
	"cmp"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// migration is one policy at work: its sides, as configured, and its progress. A reload
// makes a new one, which may share the progress of the one before. Requests read it, and
// change nothing but the counters, recorder and queue of its progress.
type migration struct {
	spec      stages.Spec
	sides     [2]side // by role
	onFailure string
	observer  func(*compared)
	protected map[string]bool // the keys, as requests are charged under them
	inProcess inProcess
	*progress
}

// options are what a migration needs besides its sides.
type options struct {
	onFailure string // "" means policies.FailLocal
	observer  func(*compared)
	log       *slog.Logger
	secret    []byte                   // of recorders
	durations *prometheus.HistogramVec // nil: durations are not measured
	before    *migration               // the policy as it was before a reload, nil if it is new
}

// newMigration returns a migration that is ready for requests. If the policy has the
// fingerprint that it had before a reload, its progress goes on. If not, its stage stays as it
// was until the fleet has heard of the new fingerprint.
func newMigration(spec stages.Spec, sides [2]side, o options) *migration {
	m := &migration{
		spec: spec, sides: sides, observer: o.observer,
		onFailure: cmp.Or(o.onFailure, policies.FailLocal),
	}
	m.spec.Apart = m.hasCandidate() && !m.spec.FirstLimit && !m.judgedTogether()
	m.spec.Copied = m.begunAsCopy()
	m.protect(spec.Config.Protect, o.secret)
	m.shareLevel()
	for role := range m.sides {
		if o.before != nil {
			m.sides[role].adaptation.resume(&o.before.sides)
		}
		if o.durations != nil && m.sides[role].remote() {
			m.sides[role].duration = o.durations.WithLabelValues(spec.Policy, algorithms.Role(role).String())
		}
	}

	if m.sameFingerprint(o.before) {
		m.resume(o.before)
	} else {
		m.begin(&o)
	}
	m.inProcess.begin(m)
	return m
}

// protect notes the protected keys. Instances announce them by their names in the ledger, where they may be secret.
func (m *migration) protect(keys []string, secret []byte) {
	m.protected, m.spec.Config.Protect = map[string]bool{}, nil
	for _, key := range keys {
		m.protected[key] = true
		m.spec.Config.Protect = append(m.spec.Config.Protect, evidence.KeyName(key, secret))
	}
}

// sameFingerprint reports whether a reload leaves alone what is compared, so that evidence and stage go on.
func (m *migration) sameFingerprint(before *migration) bool {
	return before != nil && before.spec.Fingerprint == m.spec.Fingerprint
}

// resume takes over what a migration of the same fingerprint has come to.
func (m *migration) resume(before *migration) {
	// A reload must not send requests again to a limiter that is known to fail, nor forget
	// the calls that it has not returned from.
	m.progress = before.progress
	for role := range m.sides {
		m.sides[role].breaker = before.sides[role].breaker
		m.sides[role].calls = before.sides[role].calls
	}
}

// begin gives the migration a progress of its own.
func (m *migration) begin(o *options) {
	m.progress = newProgress(o.secret, o.log)
	if o.before != nil {
		m.progress.Stage = o.before.progress.Stage.Copy()
	}

	for role := range m.sides {
		m.sides[role].guardCustom(m.spec.Policy, algorithms.Role(role), o.log)
	}
	if m.spec.Apart || m.spec.FirstLimit && !m.sides[algorithms.Candidate].quick() {
		m.progress.async = newAsyncQueue()
	}
}

// hasCandidate reports whether there is something to compare. A policy without a
// candidate is a plain limiter.
func (m *migration) hasCandidate() bool { return m.sides[algorithms.Candidate].present() }

// judgedTogether reports whether one store judges both sides at one instant.
func (m *migration) judgedTogether() bool {
	return m.sides[0].store != nil && m.sides[0].store == m.sides[1].store
}

// fedLocally reports whether the local limiter may have to answer for a side. Sides in memory do not fail, and other
// rules for failures need no limiter.
func (m *migration) fedLocally() bool {
	return m.onFailure == policies.FailLocal && (m.sides[0].remote() || m.sides[1].remote())
}

// distance says how far the sides lie apart.
func (m *migration) distance() evidence.Distance {
	switch {
	case m.sides[0].store == m.sides[1].store:
		return evidence.OneStore
	case m.synchronized():
		return evidence.Synchronized
	}
	return evidence.TwoStores
}

// enforced returns the side that is enforced for the key at a position.
func (m *migration) enforced(at evidence.Position) algorithms.Role {
	// A candidate that is not there cannot be enforced, whatever the state says.
	if !m.hasCandidate() {
		return algorithms.Authoritative
	}

	return m.progress.Stage.Enforced(m.spec.Fingerprint, at)
}
