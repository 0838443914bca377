package stages

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
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
