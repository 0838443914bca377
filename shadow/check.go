package shadow

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// specOf returns what instances announce of a policy. A controller and the command line do
// not have the policy file: they know a policy by this alone.
func specOf(p *policies.Policy) stages.Spec {
	spec := stages.Spec{
		Policy:        p.Name,
		Fingerprint:   p.Fingerprint(),
		Authoritative: p.Sides[algorithms.Authoritative].String(),
		Config:        stages.ConfigOf(p.Promotion),
		First:         p.DeclaresFirst(),
		FirstLimit:    p.Sides[algorithms.Authoritative].None(),
		Labels:        p.Labels,

		OnStoreFailure: p.OnStoreFailure,
		Store:          p.Sides[algorithms.Authoritative].Store,

		AuthoritativeRule: ruleKeyOf(p.Sides[algorithms.Authoritative]),
	}
	for role, s := range p.Sides {
		spec.AsksStore[role] = s != nil && s.Algorithm != nil && s.Sync == 0
		if s != nil && s.PerProcess {
			spec.PerProcess[role], _ = s.Constant()
		}
		if s != nil && !s.None() {
			spec.Window = max(spec.Window, engine.MemoryOf(s.Algorithm, s.Usual()))
		}
	}
	if c := p.Sides[algorithms.Candidate]; c != nil {
		spec.Candidate = c.String()
		spec.CandidateStore = c.Store
		spec.CandidateRule = ruleKeyOf(c)
	}
	return spec
}

// ruleKeyOf returns the key of the rule that a side's limit follows, "" if it is always the whole.
func ruleKeyOf(s *policies.Side) string {
	if rule := s.Adaptive(); rule != nil {
		return rule.Key()
	}
	return ""
}
