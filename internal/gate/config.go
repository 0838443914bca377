package gate

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Config says what evidence a candidate needs. Zero fields mean their defaults,
// which stand in parentheses.
type Config struct {
	// Divergence, NewlyDenied and ExtraLoad are thresholds, fractions above 0 and below 1: of all comparisons (0.02), of the
	// requests that the authoritative allows (0.02), and the newly allowed of those (0.1).
	Divergence  float64 `json:"divergence"`
	NewlyDenied float64 `json:"newly_denied"`
	ExtraLoad   float64 `json:"extra_load"`
	// NewlyAllowed is the threshold of the newly allowed of what the authoritative denies, a fraction above 0 and below 1. Without it
	// that ratio is shown, and not judged.
	NewlyAllowed float64 `json:"newly_allowed"`
	// Soak is how much time must have been seen before each step (by soakFor).
	Soak time.Duration `json:"soak_ns"`
	// Protect are the keys that the policy protects, by the names that the ledger has for them.
	Protect []string `json:"protect,omitempty"`
	// MinDenials is how many requests (20), MinDeniedKeys how many distinct keys (5)
	// the authoritative must have denied. With fewer its limit was not exercised.
	MinDenials    int64 `json:"min_denials"`
	MinDeniedKeys int64 `json:"min_denied_keys"`
}

// WithDefaults returns the configuration with its zero fields filled in.
func (c Config) WithDefaults() Config {
	return c.Or(Config{Divergence: 0.02, NewlyDenied: 0.02, ExtraLoad: 0.1, MinDenials: 20, MinDeniedKeys: 5})
}

// soakFor returns the time to be seen before a step to a percentage of the keys. Without a
// declared soak it is as long as the step can hurt: 48 h up to 10 %, 72 h up to 50 %, and
// beyond that a week, because a weekend may be unlike all other days.
func (c Config) soakFor(percent float64) time.Duration {
	switch {
	case c.Soak > 0:
		return c.Soak
	case percent <= 10:
		return 48 * time.Hour
	case percent <= 50:
		return 72 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// Or returns the configuration with its zero fields taken from another one. No field can be declared as zero, so zero
// always means that it was left out.
func (c Config) Or(other Config) Config {
	if c.Protect == nil {
		c.Protect = other.Protect
	}
	c.Divergence = cmp.Or(c.Divergence, other.Divergence)
	c.NewlyDenied = cmp.Or(c.NewlyDenied, other.NewlyDenied)
	c.NewlyAllowed = cmp.Or(c.NewlyAllowed, other.NewlyAllowed)
	c.ExtraLoad = cmp.Or(c.ExtraLoad, other.ExtraLoad)
	c.Soak = cmp.Or(c.Soak, other.Soak)
	c.MinDenials = cmp.Or(c.MinDenials, other.MinDenials)
	c.MinDeniedKeys = cmp.Or(c.MinDeniedKeys, other.MinDeniedKeys)
	return c
}

// maxSoak keeps the time seen within keptFor, for which the ledger keeps evidence.
const (
	maxSoak = 30 * 24 * time.Hour
	keptFor = evidence.KeptDays * 24 * time.Hour
)

// Validate refuses a configuration, defaults filled in, that the gate cannot
// judge by. The error is a *FieldError.
func (c Config) Validate() error {
	for _, r := range evidence.AllRatios[:evidence.AllowsCost] {
		p := c.Threshold(r)
		if r == evidence.OfDenials && p == 0 {
			continue
		}
		if !(p > 0 && p < 1) {
			return &FieldError{r.String(), fmt.Sprintf("%g: want a threshold above 0 and below 1", p)}
		}
	}

	switch {
	case len(c.Protect) > evidence.MostProtected:
		return &FieldError{"protect", fmt.Sprintf("%d keys: want at most %d", len(c.Protect), evidence.MostProtected)}
	case c.Soak < 0:
		return &FieldError{"soak", fmt.Sprintf("%s: want above 0", c.Soak)}
	case c.Soak > maxSoak:
		return &FieldError{"soak", fmt.Sprintf("want at most 30d, for evidence is kept for %d days", evidence.KeptDays)}
	}
	return nil
}

// Threshold returns the fraction that a ratio has to stay below, of requests and by cost.
func (c Config) Threshold(r evidence.Ratio) float64 {
	return [...]float64{
		evidence.OfComparisons: c.Divergence,
		evidence.OfAllows:      c.NewlyDenied,
		evidence.OfDenials:     c.NewlyAllowed,
		evidence.ExtraLoad:     c.ExtraLoad,
	}[r.OfRequests()]
}

// FieldError is a field of a configuration that the gate cannot judge by.
type FieldError struct {
	Field   string // its name in a policy file, such as soak
	Problem string
}

// Error implements error.
func (e *FieldError) Error() string { return "gate: " + e.Message() }

// Message is the error as a message about a policy file.
func (e *FieldError) Message() string { return e.Field + ": " + e.Problem }
