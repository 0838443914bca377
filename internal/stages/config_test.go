package stages

import (
	"testing"
	"time"
)

func TestConfigsThatAreRefused(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"a threshold of 1":           func(c *Config) { c.Divergence = 1 },
		"a soak below 0":             func(c *Config) { c.Soak = -time.Hour },
		"a soak over thirty days":    func(c *Config) { c.Soak = 30*24*time.Hour + time.Minute },
		"a dwell below 0":            func(c *Config) { c.Dwell = -time.Hour },
		"a canary above 100 percent": func(c *Config) { c.Canary = []float64{101} },
		"a canary that shrinks":      func(c *Config) { c.Canary = []float64{10, 1} },
		"a canary step twice":        func(c *Config) { c.Canary = []float64{10, 10, 50} },
		"a zone that does not exist": func(c *Config) { c.Change.Zone = "Atlantis" },
	} {
		cfg := Config{}.WithDefaults()
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}

		if edit(&cfg); cfg.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
