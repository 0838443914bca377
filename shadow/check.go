package shadow

import (
	"errors"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/gate"
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
		Config:        PromotionOf(p.Promotion),
		First:         p.DeclaresFirst(),
		FirstLimit:    p.Sides[algorithms.Authoritative].None(),
		Labels:        p.Labels,

		OnStoreFailure: p.OnStoreFailure,
		Store:          p.Sides[algorithms.Authoritative].Store,

		AuthoritativeRule: ruleKeyOf(p.Sides[algorithms.Authoritative]),
	}
	for role, s := range p.Sides {
		spec.AsksStore[role] = s != nil && s.Algorithm != nil && s.Sync == 0
		if s != nil && !s.None() {
			spec.Window = max(spec.Window, memoryOf(s.Algorithm, s.Usual()))
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

// PromotionOf turns the promotion of a policy file into the configuration of the gate and
// the stages, with defaults for what the file leaves out. It does not validate:
// see CheckPromotion.
func PromotionOf(p policies.Promotion) stages.Config { return declared(p).WithDefaults() }

// declared is PromotionOf without the defaults, because warnings are about what the file
// says: a default needs none.
func declared(p policies.Promotion) stages.Config {
	c := stages.Config{
		Config:    rulesOf(p),
		Automatic: p.Mode == "automatic",
		Dwell:     p.Dwell,
		Canary:    p.Canary,
		Change:    stages.ChangeWindow{Days: p.ChangeDays, From: p.ChangeFrom, To: p.ChangeTo},
	}

	// The zone travels by its name: the configuration is stored as JSON.
	if p.ChangeZone != nil {
		c.Change.Zone = p.ChangeZone.String()
	}
	return c
}

// rulesOf returns the part of a configuration that the gate judges by.
func rulesOf(p policies.Promotion) gate.Config {
	return gate.Config{
		Divergence:   p.Divergence,
		NewlyDenied:  p.NewlyDenied,
		NewlyAllowed: p.NewlyAllowed,
		ExtraLoad:    p.ExtraLoad,

		Soak:          p.Soak,
		MinDenials:    p.MinDenials,
		MinDeniedKeys: p.MinDeniedKeys,
		Protect:       p.Protect,
	}
}

// CheckPromotion is the check to load a policy file with: policies knows the words of
// a promotion section, and the gate knows what its numbers can reach.
func CheckPromotion(p policies.Promotion) (list []policies.Finding) {
	// A file that reads well has only errors of the gate. Others would have no field,
	// and are found when the policy is taken.
	var wrong *gate.FieldError
	if errors.As(declared(p).WithDefaults().Validate(), &wrong) {
		list = append(list, policies.Finding{
			Severity: policies.SeverityError, Fields: []string{wrong.Field}, Message: wrong.Message(),
		})
	}
	return list
}
