package shadow

import (
	"errors"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
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

// checkRules refuses a file whose rules would not reach the fleet, or of which one has no signal.
func checkRules(set *policies.Set, signal func() float64) error {
	known := map[string]bool{}
	for _, p := range set.Policies {
		for _, s := range p.Sides {
			if s == nil || s.Adaptive() == nil {
				continue
			}
			known[s.Adaptive().Key()] = true
			if s.Adaptive().Signal == adaptive.Saturation && signal == nil {
				return errors.New("adaptive by saturation: put the service's signal into Config.Signal")
			}
		}
	}
	if len(known) > stages.MostRules {
		return errors.New("more than 8 different adaptive rules: give sides the same one")
	}
	return nil
}
