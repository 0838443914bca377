package shadow

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// noiseShare is the percentage of keys for which the noise floor is measured. Each of them
// costs a second comparison.
const noiseShare = 2

// noiseMeasurable reports whether the authoritative can be compared with a copy of
// itself. Sides in one store are judged at one instant, in one step: there is no noise.
// A foreign limiter cannot be had twice. A synchronized side learns late. That is no noise: it is the difference to be compared.
func (m *migration) noiseMeasurable() bool {
	return m.hasCandidate() && m.sides[algorithms.Authoritative].foreign == nil && !m.judgedTogether() && !m.synchronized()
}

// newNoise returns a migration from a policy's authoritative to a copy of itself. Both
// sides have records of their own, and are judged in the same way as the policy's sides:
// their differences come from that way, not from the limiters.
func newNoise(m *migration, o *options) *migration {
	authoritative := m.sides[algorithms.Authoritative]
	authoritative.duration = nil
	authoritative.shape = algorithms.UnknownShape // noise has no cause in the limiters
	duplicate := authoritative
	duplicate.algorithm.ID = authoritative.algorithm.Name() + "~copy"

	// The candidate's store, whose distance is the noise. A foreign candidate has none,
	// and follows behind the request wherever the copy is.
	candidate := &m.sides[algorithms.Candidate]
	if candidate.foreign == nil {
		duplicate.store = candidate.store
	}

	n := &migration{
		spec: m.spec, sides: [2]side{authoritative, duplicate}, measures: m,
		onFailure: policies.FailAllow, alwaysDeferred: candidate.foreign != nil,
		progress: newProgress(o.secret, o.log),
	}
	n.epochBits = epochBits(m.spec.Epoch)
	n.spec.Policy += "~copy" // no policy can have this name
	n.spec.Config.Sample = 0 // a reload may end the sample, and keeps this migration

	// The same queue and workers, because the wait in them is part of the noise.
	n.progress.followers = m.progress.followers
	return n
}

// addNoise charges a policy's noise floor for what the policy is charged, for a sample
// of keys that is independent of the canary's. Where the candidate is enforced no
// request may wait for the authoritative's store, which may be slow or gone.
func (e *engine) addNoise(s *scratch, m *migration, charged *algorithms.Charge, hash uint64) {
	if !m.spec.Noise || charged.Enforced != algorithms.Authoritative {
		return
	}

	// The canary takes the hash modulo 10,000, so the digits above are independent of it. A
	// store that suffers from judging both sides must not be given more to do.
	if hash/10_000%100 >= noiseShare || m.progress.noise.sides[algorithms.Authoritative].store.overloaded() {
		return
	}

	c := s.next()
	*c = *charged
	c.Policy = m.progress.noise.spec.Policy
	for role := range c.Sides {
		c.Sides[role] = m.progress.noise.sides[role].algorithm
		c.Sides[role].Limit = charged.Sides[algorithms.Authoritative].Limit
	}
	e.add(s, m.progress.noise, e.hashOf(c), declaration{})
}
