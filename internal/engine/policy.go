package engine

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Policy is one policy at work: its sides, as configured, and its progress. A reload
// makes a new one, which may share the progress of the one before. Requests read it, and
// change nothing but the counters, recorder and queue of its progress.
type Policy struct {
	Spec      stages.Spec
	keyHash   evidence.KeyHash
	Sides     [2]Side // by role
	together  int     // the number of the list of policies that are charged together, 0 for none
	OnFailure string
	observer  func(*Comparison)
	protected map[string]bool // the keys, as requests are charged under them
	inProcess inProcess
	*progress

	settles bool             // what is charged is kept, to be changed to the final cost
	final   *policies.Policy // says the final cost; nil: code does
}

// PolicyOptions are what a policy needs besides its sides.
type PolicyOptions struct {
	Service   string
	OnFailure string           // "" means policies.FailLocal
	Together  int              // the number of its list, 0 for none
	Settles   bool             // the cost is not final
	Final     *policies.Policy // says the final cost, nil if code does
	Observer  func(*Comparison)
	Log       *slog.Logger
	Secret    []byte                   // of recorders
	Durations *prometheus.HistogramVec // nil: durations are not measured
	Before    *Policy                  // the policy as it was before a reload, nil if it is new
}

// DurationLabels are the labels of the Durations.
var DurationLabels = []string{"policy", "side", "fingerprint"}

// NewPolicy returns a policy that is ready for requests. If the policy has the
// fingerprint that it had before a reload, its progress goes on. If not, its stage stays as it
// was until the fleet has heard of the new fingerprint.
func NewPolicy(spec stages.Spec, sides [2]Side, o PolicyOptions) *Policy {
	p := &Policy{
		Spec: spec, keyHash: evidence.NewKeyHash(o.Service, spec.Policy), Sides: sides, observer: o.Observer,
		OnFailure: cmp.Or(o.OnFailure, policies.FailLocal), together: o.Together, settles: o.Settles, final: o.Final,
	}
	p.Spec.Apart = p.HasCandidate() && !p.Spec.FirstLimit && !p.judgedTogether() && !p.Spec.Followed // a line of a log reaches both
	p.Spec.Copied = p.begunAsCopy()
	p.protect(spec.Config.Protect, o.Secret)
	shareLevel(&p.Sides)
	for role := range p.Sides {
		if o.Before != nil {
			p.Sides[role].adaptation.resume(&o.Before.Sides)
		}
		if o.Durations != nil && p.Sides[role].Remote() {
			p.Sides[role].duration = o.Durations.WithLabelValues(spec.Policy, algorithms.Role(role).String(), spec.Fingerprint)
		}
	}

	if p.sameFingerprint(o.Before) {
		p.resume(o.Before)
	} else {
		p.begin(&o)
	}
	p.inProcess.begin(p)
	return p
}

// protect notes the protected keys. Instances announce them by their names in the ledger, where they may be secret.
func (p *Policy) protect(keys []string, secret []byte) {
	p.protected, p.Spec.Config.Protect = map[string]bool{}, nil
	for _, key := range keys {
		p.protected[key] = true
		p.Spec.Config.Protect = append(p.Spec.Config.Protect, evidence.KeyName(key, secret))
	}
}

// sameFingerprint reports whether a reload leaves alone what is compared, so that evidence and stage go on.
func (p *Policy) sameFingerprint(before *Policy) bool {
	return before != nil && before.Spec.Fingerprint == p.Spec.Fingerprint
}

// resume takes over what a policy of the same fingerprint has come to.
func (p *Policy) resume(before *Policy) {
	// A reload must not send requests again to a limiter that is known to fail, nor forget
	// the calls that it has not returned from.
	p.progress = before.progress
	for role := range p.Sides {
		p.Sides[role].breaker = before.Sides[role].breaker
		p.Sides[role].calls = before.Sides[role].calls
	}
}

// begin gives the policy a progress of its own.
func (p *Policy) begin(o *PolicyOptions) {
	p.progress = newProgress(p.Spec.Policy, o.Secret, o.Log)
	if o.Before != nil {
		p.progress.Stage = o.Before.progress.Stage.Copy()
	}

	for role := range p.Sides {
		p.Sides[role].guardCustom(p.Spec.Policy, algorithms.Role(role), o.Log)
	}
	if p.Spec.Apart || p.Spec.FirstLimit && !p.Sides[algorithms.Candidate].quick() {
		p.progress.async = newAsyncQueue()
	}
}

// HasCandidate reports whether there is something to compare. A policy without a
// candidate is a plain limiter.
func (p *Policy) HasCandidate() bool { return p.Sides[algorithms.Candidate].present() }

// judgedTogether reports whether one store judges both sides at one instant.
func (p *Policy) judgedTogether() bool {
	return p.Sides[0].store != nil && p.Sides[0].store == p.Sides[1].store
}

// begunAsCopy reports whether a candidate always begins as a copy of the authoritative: one record,
// one algorithm, one window. A log is copied only if it is short.
func (p *Policy) begunAsCopy() bool {
	a, c := &p.Sides[algorithms.Authoritative], &p.Sides[algorithms.Candidate]
	return a.shape != algorithms.SlidingLog && p.judgedTogether() && a.algorithm.Algorithm.Name() == c.algorithm.Algorithm.Name() && a.Window == c.Window
}

func (p *Policy) synchronized() bool {
	return p.Sides[0].synchronized() || p.Sides[1].synchronized()
}

// fedLocally reports whether the local limiter may have to answer for a side. Sides in memory do not fail, and other
// rules for failures need no limiter.
func (p *Policy) fedLocally() bool {
	return p.OnFailure == policies.FailLocal && (p.Sides[0].Remote() || p.Sides[1].Remote())
}

// distance says how far the sides lie apart.
func (p *Policy) distance() evidence.Distance {
	switch {
	case p.Sides[0].store == p.Sides[1].store:
		return evidence.OneStore
	case p.synchronized():
		return evidence.Synchronized
	}
	return evidence.TwoStores
}

// Enforced returns the side that is enforced for the key at a position.
func (p *Policy) Enforced(at evidence.Position) algorithms.Role {
	// A candidate that is not there cannot be enforced, whatever the state says.
	if !p.HasCandidate() {
		return algorithms.Authoritative
	}

	return p.progress.Stage.Enforced(p.Spec.Fingerprint, at)
}

// Declared is what a policy file says of a check besides its sides. The zero value is that
// of a file that says nothing.
type Declared struct {
	expected algorithms.Expected
	pinned   bool // the key is in a canary from its first step
}

// DeclaredOf asks a policy what it declares of a request that it charges.
func (m *Policy) DeclaredOf(ctx context.Context, p *policies.Policy, r *policies.Request) Declared {
	d := Declared{expected: p.Expected(ctx, r)}

	// The expression costs as much as a condition.
	if !p.DeclaresFirst() || !m.firstMatters() {
		return d
	}

	pinned, err := p.First(ctx, r)
	if err != nil {
		m.progress.counts.errors.Add(1)
		m.progress.warnLimited(&m.progress.counts.warned.keyFailed, "shadowlimit: first fails; the key is not pinned",
			"error", err)
	}
	d.pinned = pinned
	return d
}

// firstMatters reports whether it decides anything in the stage that a key is pinned, or soon: before a canary the
// expression is evaluated so that one that fails is seen.
func (p *Policy) firstMatters() bool {
	switch p.progress.Stage.State().Stage {
	case stages.Promoted, stages.Completed, stages.RolledBack:
		return false
	}
	return true
}

// Settles reports whether what is charged may be changed to a final cost.
func (p *Policy) Settles() bool { return p.settles }

// charges reports whether a receipt can be one of the policy: no other side is believed.
func (p *Policy) charges(r *algorithms.Receipt) bool {
	for role := range r.Sides {
		side, own := &r.Sides[role].Side, &p.Sides[role].algorithm
		if side.Present() && (!own.Present() || side.Name() != own.Name() || side.Algorithm.Name() != own.Algorithm.Name()) {
			return false
		}
	}
	return true
}

// Holdings returns how much of the limits holds, by role; nil where a limit is always the whole.
func (p *Policy) Holdings() (list [2]*adaptive.Holding) {
	for role := range p.Sides {
		if a := p.Sides[role].adaptation; a != nil {
			list[role] = a.Holding
		}
	}
	return list
}

// apartIn reports whether a side is in a store that the other side does not share.
func (p *Policy) apartIn(s *Store) bool {
	return p.Spec.Apart && (p.Sides[0].store == s || p.Sides[1].store == s)
}

// Grow makes sides of this process older than a window. Tests call it.
func (p *Policy) Grow() { p.inProcess.old.Store(true) }
