package gate

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Config says what evidence a candidate needs. Zero fields mean their defaults,
// which stand in parentheses.
type Config struct {
	// Divergence, NewlyDenied, NewlyAllowed and ExtraLoad are thresholds, fractions above 0
	// and below 1: of all comparisons (0.02), of the charges that the authoritative allows
	// (0.02), of its denials (0.5), and the newly allowed of its admissions (0.1).
	Divergence   float64 `json:"divergence"`
	NewlyDenied  float64 `json:"newly_denied"`
	NewlyAllowed float64 `json:"newly_allowed"`
	ExtraLoad    float64 `json:"extra_load"`
	// Soak is the clean time before a step (48h). Each strike adds as much again.
	Soak time.Duration `json:"soak_ns"`
	// Graded says that no soak was declared: later steps then need a longer one, see SoakFor.
	Graded bool `json:"graded,omitempty"`
	// Protect are the keys that the policy protects, by the names that the ledger has for them.
	Protect []string `json:"protect,omitempty"`
	// MinDenials is how many requests (200), MinDeniedKeys how many distinct keys (20)
	// the authoritative must have denied. With fewer its limit was not exercised.
	MinDenials    int64 `json:"min_denials"`
	MinDeniedKeys int64 `json:"min_denied_keys"`
}

// WithDefaults returns the configuration with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Graded = c.Graded || c.Soak == 0
	return c.Or(Config{
		Divergence:    0.02,
		NewlyDenied:   0.02,
		NewlyAllowed:  0.5,
		ExtraLoad:     0.1,
		Soak:          48 * time.Hour,
		MinDenials:    200,
		MinDeniedKeys: 20,
	})
}

// SoakFor returns the clean time before a step to a percentage of the keys. Without a
// declared soak it is as long as the step can hurt: 48 h up to 10 %, 72 h up to 50 %, and
// beyond that a week, because a weekend may be unlike all other days.
func (c Config) SoakFor(percent float64) time.Duration {
	switch {
	case !c.Graded || percent <= 10:
		return c.Soak
	case percent <= 50:
		return c.Soak * 3 / 2
	}
	return max(c.Soak, aWeek)
}

// asksForWeekdays reports whether a step to a percentage of the keys needs every weekday seen.
func (c Config) asksForWeekdays(percent float64) bool { return c.Graded && percent > 50 }

// Or returns the configuration with its zero fields taken from another one. No field can be declared as zero, so zero
// always means that it was left out.
func (c Config) Or(other Config) Config {
	protect := c.Protect
	if protect == nil {
		protect = other.Protect
	}
	return Config{
		Divergence:    cmp.Or(c.Divergence, other.Divergence),
		NewlyDenied:   cmp.Or(c.NewlyDenied, other.NewlyDenied),
		NewlyAllowed:  cmp.Or(c.NewlyAllowed, other.NewlyAllowed),
		ExtraLoad:     cmp.Or(c.ExtraLoad, other.ExtraLoad),
		Soak:          cmp.Or(c.Soak, other.Soak),
		Graded:        c.Graded || c.Soak == 0 && other.Graded,
		Protect:       protect,
		MinDenials:    cmp.Or(c.MinDenials, other.MinDenials),
		MinDeniedKeys: cmp.Or(c.MinDeniedKeys, other.MinDeniedKeys),
	}
}

const (
	// maxSoak keeps the clean time after two strikes within what the ledger keeps.
	maxSoak = 10 * 24 * time.Hour
	aWeek   = 7 * 24 * time.Hour
)

// Validate refuses a configuration, defaults filled in, that the gate cannot
// judge by. The error is a *FieldError.
func (c Config) Validate() error {
	for _, r := range divergence.AllRatios {
		if p := c.Threshold(r); !(p > 0 && p < 1) {
			return &FieldError{r.String(), fmt.Sprintf("%g: want a threshold above 0 and below 1", p)}
		}
	}

	switch {
	case len(c.Protect) > divergence.MostProtected:
		return &FieldError{"protect", fmt.Sprintf("%d keys: want at most %d", len(c.Protect), divergence.MostProtected)}
	case c.Soak <= 0:
		return &FieldError{"soak", fmt.Sprintf("%s: want above 0", c.Soak)}
	case c.Soak > maxSoak:
		return &FieldError{"soak", fmt.Sprintf("want at most %s, for evidence is kept for %d days "+
			"and two strikes triple the soak", asWritten(maxSoak), divergence.KeptDays)}
	}
	return nil
}

// Threshold returns the fraction that a ratio has to stay below.
func (c Config) Threshold(r divergence.Ratio) float64 {
	return [...]float64{
		divergence.OfComparisons: c.Divergence,
		divergence.OfAllows:      c.NewlyDenied,
		divergence.OfDenials:     c.NewlyAllowed,
		divergence.ExtraLoad:     c.ExtraLoad,
	}[r]
}
