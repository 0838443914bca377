package promotion

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Config says when a candidate may be promoted. Zero fields mean their defaults.
type Config struct {
	// Automatic lets a Controller move stages; else it only advises.
	Automatic bool `json:"automatic"`
	// Rule is what a candidate has to show (ByEvidence).
	Rule Rule `json:"rule"`
	// Divergence, NewlyDenied and NewlyAllowed are thresholds, fractions above 0
	// and below 1: of all comparisons (0.02), of what the authoritative allows
	// (0.02), of what it denies (0.5).
	Divergence   float64 `json:"divergence"`
	NewlyDenied  float64 `json:"newly_denied"`
	NewlyAllowed float64 `json:"newly_allowed"`
	// Block is the least length of a block of evidence, in whole minutes (1h).
	Block time.Duration `json:"block_ns"`
	// Soak is the clean time before promotion (48h); each strike asks for as much
	// again.
	Soak time.Duration `json:"soak_ns"`
	// Dwell is the least time in each canary step (1h).
	Dwell time.Duration `json:"dwell_ns"`
	// MinDenials is how often (200), MinDeniedKeys to how many keys (20) the
	// authoritative must have denied: else its limit was not exercised.
	MinDenials    int64 `json:"min_denials"`
	MinDeniedKeys int64 `json:"min_denied_keys"`
	// Canary are the rising percentages of keys before promotion (1, 10, 50).
	Canary []float64 `json:"canary"`
	// Sample is the share of the keys for which the candidate is judged at all, a
	// fraction; 0 means all. A sampled policy cannot leave shadow.
	Sample float64 `json:"sample,omitempty"`
	// Change is when stages may be moved forward automatically.
	Change ChangeWindow `json:"change_window"`
}

// Rule names what a candidate has to show before it is promoted.
type Rule string

const (
	// ByEvidence asks for scores, clean time and few strikes.
	ByEvidence Rule = "evidence"
	// Simple asks that the ratios over the last soak are below their thresholds. It
	// promotes nearly every candidate that is just at its threshold.
	Simple Rule = "simple"
)

// ChangeWindow is a part of the week. Zero fields mean weekdays, 09:00 to 16:00,
// and UTC.
type ChangeWindow struct {
	Days []time.Weekday `json:"days"`
	// From and To are times since midnight; To is not included.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	// Zone is the name of a time zone; "" means UTC.
	Zone string `json:"zone"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	c.Rule = cmp.Or(c.Rule, ByEvidence)
	c.Divergence = cmp.Or(c.Divergence, 0.02)
	c.NewlyDenied = cmp.Or(c.NewlyDenied, 0.02)
	c.NewlyAllowed = cmp.Or(c.NewlyAllowed, 0.5)
	c.Block = cmp.Or(c.Block, time.Hour)
	c.Soak = cmp.Or(c.Soak, 48*time.Hour)
	c.Dwell = cmp.Or(c.Dwell, time.Hour)
	c.MinDenials = cmp.Or(c.MinDenials, 200)
	c.MinDeniedKeys = cmp.Or(c.MinDeniedKeys, 20)
	if len(c.Canary) == 0 {
		c.Canary = []float64{1, 10, 50}
	}
	c.Change.Zone = cmp.Or(c.Change.Zone, "UTC")
	if len(c.Change.Days) == 0 {
		c.Change.Days = []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday}
	}
	if c.Change.From == 0 && c.Change.To == 0 {
		c.Change.From, c.Change.To = 9*time.Hour, 16*time.Hour
	}
	return c
}

// Sampled reports whether the candidate is judged for some keys only.
func (c Config) Sampled() bool { return c.Sample > 0 && c.Sample < 1 }

// maxSoak keeps the clean time after two strikes within what the ledger keeps.
const maxSoak = 10 * 24 * time.Hour

// Validate refuses a configuration, defaults filled in, that the gate cannot
// judge by.
func (c Config) Validate() error {
	for _, r := range divergence.AllRatios {
		if p := c.Threshold(r); !(p > 0 && p < 1) {
			return fmt.Errorf("promotion: threshold of %s is %g: want above 0 and below 1", r, p)
		}
	}
	for _, step := range c.Canary {
		if !(step > 0 && step <= 100) {
			return fmt.Errorf("promotion: canary step %g: want above 0 and up to 100 percent", step)
		}
	}
	switch {
	case !(c.Sample >= 0 && c.Sample <= 1):
		return fmt.Errorf("promotion: sample %g: want a fraction up to 1", c.Sample)
	case c.Rule != ByEvidence && c.Rule != Simple:
		return fmt.Errorf("promotion: rule %q: want %s or %s", c.Rule, ByEvidence, Simple)
	case !slices.IsSorted(c.Canary):
		return fmt.Errorf("promotion: canary steps %v: want them to rise", c.Canary)
	case c.Block < time.Minute || c.Block%time.Minute != 0:
		return fmt.Errorf("promotion: block %s: want whole minutes", c.Block)
	case c.Soak <= 0 || c.Dwell <= 0:
		return fmt.Errorf("promotion: soak %s, dwell %s: want above 0", c.Soak, c.Dwell)
	case c.Soak > maxSoak:
		return fmt.Errorf("promotion: soak %s: want at most %s, for the ledger keeps 32 days and strikes ask for three times as much", c.Soak, maxSoak)
	}
	_, err := time.LoadLocation(c.Change.Zone)
	return err
}

// Threshold returns what a ratio has to stay below.
func (c Config) Threshold(r divergence.Ratio) float64 {
	return [...]float64{divergence.OfComparisons: c.Divergence, divergence.OfAllows: c.NewlyDenied, divergence.OfDenials: c.NewlyAllowed}[r]
}

// Open reports whether an instant lies in the window.
func (w ChangeWindow) Open(at time.Time) bool {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return false
	}
	at = at.In(zone)
	sinceMidnight := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second
	return slices.Contains(w.Days, at.Weekday()) && sinceMidnight >= w.From && sinceMidnight < w.To
}
