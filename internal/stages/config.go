package stages

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Config says when a candidate may be promoted: what evidence it needs, and how a
// controller moves it. Zero fields mean their defaults.
type Config struct {
	// Automatic lets a Controller move stages; otherwise it only advises.
	Automatic bool `json:"automatic"`
	// Config is what the gate judges by. Its fields stand beside the others in JSON.
	gate.Config
	// Dwell is the least time in each canary step (1h).
	Dwell time.Duration `json:"dwell_ns"`
	// Canary are the rising percentages of keys before promotion (1, 10, 50).
	Canary []float64 `json:"canary"`
	// Change is when stages may be moved forward automatically.
	Change ChangeWindow `json:"change_window"`
}

// WithDefaults returns the configuration with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.Dwell = cmp.Or(c.Dwell, time.Hour)
	if len(c.Canary) == 0 {
		c.Canary = []float64{1, 10, 50}
	}
	c.Change = c.Change.withDefaults()
	return c
}

// Validate refuses a configuration, defaults filled in, that the gate cannot judge
// by or whose steps cannot be taken.
func (c Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}

	for _, step := range c.Canary {
		if !(step > 0 && step <= 100) {
			return fmt.Errorf("stages: canary step %g: want above 0 and up to 100 percent", step)
		}
	}
	for i := 1; i < len(c.Canary); i++ {
		if c.Canary[i] <= c.Canary[i-1] {
			return fmt.Errorf("stages: canary steps %v: want them to rise", c.Canary)
		}
	}
	if c.Dwell <= 0 {
		return fmt.Errorf("stages: dwell %s: want above 0", c.Dwell)
	}

	if _, err := time.LoadLocation(c.Change.Zone); err != nil {
		return fmt.Errorf("stages: change_window: %w", err)
	}
	return nil
}

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
