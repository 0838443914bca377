package stages

import (
	"errors"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/policies"
)

// ConfigOf turns the promotion of a policy file into the configuration of the gate and the
// stages, with defaults for what the file leaves out. It does not validate: see Check.
func ConfigOf(p policies.Promotion) Config { return declared(p).WithDefaults() }

// declared is ConfigOf without the defaults, because warnings are about what the file
// says: a default needs none.
func declared(p policies.Promotion) Config {
	c := Config{
		Config:    rulesOf(p),
		Automatic: p.Mode == "automatic",
		Dwell:     p.Dwell,
		Canary:    p.Canary,
		Change:    ChangeWindow{Days: p.ChangeDays, From: p.ChangeFrom, To: p.ChangeTo},
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

// Check is the check to load a policy file with: policies knows the words of
// a promotion section, and the gate knows what its numbers can reach.
func Check(p policies.Promotion) (list []policies.Finding) {
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
