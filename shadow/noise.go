package shadow

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// noiseShare is the percentage of keys for which the noise floor is measured.
const noiseShare = 2

// copyable reports whether the authoritative can be compared with a copy of itself.
// Sides in one store are judged at one instant, in one step: there is no noise. A
// limiter of the user's own cannot be had twice.
func (m *migration) copyable() bool {
	own := m.limiters[algorithms.Authoritative] == nil
	apart := m.limiters[algorithms.Candidate] != nil || m.stores[0] != m.stores[1]
	return m.candidate && own && apart
}

// copies reports whether the noise floor is measured: not while the candidate is
// judged for a sample, which is in shadow for good.
func (m *migration) copies() bool { return m.copyable() && !m.spec.Config.Sampled() }

// copyOf returns a migration from the authoritative to a copy of itself. Both have
// records of their own, and are judged as the policy's sides are: what they differ by
// is the way, not the limiters.
func copyOf(m *migration, secret []byte) *migration {
	c := newMigration(m.spec)
	c.spec.Policy += "~copy" // no policy's name
	c.spec.Config.Sample = 0 // a reload may end the sample, and keeps the copy
	c.onFailure, c.of = policies.FailAllow, m
	authoritative := m.own[algorithms.Authoritative]
	c.own = [2]algorithms.Side{authoritative, {ID: authoritative.Name() + "~copy", Algorithm: authoritative.Algorithm}}
	c.stores = m.stores
	if c.behind = m.limiters[algorithms.Candidate] != nil; c.behind {
		c.stores[algorithms.Candidate] = m.stores[algorithms.Authoritative]
	}
	c.track = newTrack(secret, m.log)
	c.followers = m.followers
	return c
}

// addCopy charges a policy's copy for what the policy is charged, for a sample of
// keys that is not the canary's. Where the candidate is enforced nobody waits for the
// authoritative's store, which may be slow or gone, so there is no copy, either.
func (e *engine) addCopy(s *scratch, m *migration, c algorithms.Charge, hash uint64) {
	if m.copy == nil || !m.spec.Noise || c.Enforced != algorithms.Authoritative || hash/10_000%100 >= noiseShare || m.copy.stores[0].lonely() {
		return
	}
	limit := c.Sides[algorithms.Authoritative].Limit
	c.Policy = m.copy.spec.Policy
	for role := range c.Sides {
		c.Sides[role] = m.copy.own[role]
		c.Sides[role].Limit = limit
	}
	e.add(s, m.copy, c, algorithms.Expected{})
}
