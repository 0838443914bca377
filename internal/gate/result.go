package gate

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Verdicts of the gate.
const (
	Pass = "pass" // all conditions are met
	Wait = "wait" // some are not
	Fail = "fail" // it is proved that a ratio is above its threshold
)

// Verdicts are all of them.
var Verdicts = [...]string{Pass, Wait, Fail}

// Condition is one condition of a step. A step may be taken when all are met.
type Condition struct {
	Name string `json:"name"`
	Met  bool   `json:"met"`
	// Have is what there is, and Need what the step needs.
	Have string `json:"have"`
	Need string `json:"need"`
	// Due is when it is met at the earliest; nil where that is not known.
	Due *time.Time `json:"due"`
	// Reason is a sentence that says what is missing; "" if the condition is met.
	Reason string `json:"-"`
}

// Result is the verdict on a candidate, with what it rests on. Its JSON form is the
// command line's contract.
type Result struct {
	Verdict string `json:"verdict"`
	// Step is the step that the verdict is for.
	Step string `json:"step"`
	// Reason is one sentence: the unmet condition that matters most, or what is proved.
	Reason     string      `json:"reason"`
	Conditions []Condition `json:"conditions"`
	// NotBefore is an instant before which the step cannot be taken; nil if there is none.
	NotBefore *time.Time `json:"not_before"`
	Quality
	// Harm is the alarm of protected keys, and Regression that of the regression scores, where the candidate is enforced.
	Harm       Alarm `json:"-"`
	Regression Alarm `json:"-"`
	RatioResults
	// ByCost are the ratios by cost, which have the same thresholds; nil where all checks have cost 1.
	ByCost *CostResults `json:"by_cost,omitempty"`
}

// Quality says how far the evidence can be relied on. In JSON its parts are fields of the Result.
type Quality struct {
	// Coverage is the share of the last day's evaluations that could be compared; nil without any.
	Coverage *float64 `json:"coverage"`
	// UndisturbedHours is how much of the last day's time with a live instance counts for the candidate.
	UndisturbedHours float64 `json:"undisturbed_hours"`
	// Disturbed is the share of that time that does not count; nil without any.
	Disturbed *float64 `json:"disturbed_share"`
	// DisturbedBy says what has disturbed it; "" if nothing has.
	DisturbedBy string `json:"disturbed_by"`
}

// RatioResults are the parts of the ratios. In JSON they are fields of the Result.
type RatioResults struct {
	Divergence   RatioResult `json:"divergence"`
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
	ExtraLoad    RatioResult `json:"extra_load"`
}

// CostResults are the parts of the ratios by cost.
type CostResults struct {
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
	ExtraLoad    RatioResult `json:"extra_load"`
}

// RatioResult is the part of one ratio in a Result.
type RatioResult struct {
	// Ratio is over all undisturbed time, a fraction; nil without a denominator.
	Ratio *float64 `json:"ratio"`
	// Threshold is a fraction; 0 if the ratio is shown and not judged.
	Threshold float64 `json:"threshold"`
	// Score is the evidence that the ratio is below its threshold, from 0.
	Score float64 `json:"score"`
	// Regression is the evidence that the ratio has risen above it, from 0.
	Regression float64 `json:"regression"`
	// LowerBound and UpperBound are a 95 % range of the ratio; nil before the first hour has ended.
	LowerBound *float64 `json:"lower_bound"`
	UpperBound *float64 `json:"upper_bound"`
}

// Ratio returns the part of a ratio; nil for one by cost where all checks have cost 1.
func (g *Result) Ratio(r evidence.Ratio) *RatioResult {
	if r.ByCost() {
		if g.ByCost == nil {
			return nil
		}
		return [...]*RatioResult{&g.ByCost.NewlyDenied, &g.ByCost.NewlyAllowed, &g.ByCost.ExtraLoad}[r-evidence.AllowsCost]
	}
	return [...]*RatioResult{
		evidence.OfComparisons: &g.Divergence,
		evidence.OfAllows:      &g.NewlyDenied,
		evidence.OfDenials:     &g.NewlyAllowed,
		evidence.ExtraLoad:     &g.ExtraLoad,
	}[r]
}

// Met returns how many of the conditions are met.
func (g *Result) Met() (n int) {
	for i := range g.Conditions {
		if g.Conditions[i].Met {
			n++
		}
	}
	return n
}

// Worst returns the ratio that is highest in relation to its threshold, of those that are judged and measured, and
// whether there is one.
func (g *Result) Worst() (worst evidence.Ratio, ok bool) {
	height := 0.0
	for _, r := range byHarm {
		if part := g.Ratio(r); part != nil && part.Threshold > 0 && part.Ratio != nil && (!ok || *part.Ratio/part.Threshold > height) {
			worst, ok, height = r, true, *part.Ratio/part.Threshold
		}
	}
	return worst, ok
}

// Add appends a condition that other packages find, which judge no evidence. One that is not met takes back a pass, and
// its reason comes first.
func (g *Result) Add(c Condition) {
	g.Conditions = append(g.Conditions, c)
	if g.NotBefore == nil || c.Due != nil && c.Due.After(*g.NotBefore) {
		g.NotBefore = c.Due
	}
	if !c.Met && g.Verdict != Fail {
		g.Verdict, g.Reason = Wait, c.Reason
	}
}

// Brief returns the verdict and its numbers in one line, as the audit trail keeps them.
func (g *Result) Brief() string {
	text := fmt.Sprintf("%s, %d of %d conditions met", g.Verdict, g.Met(), len(g.Conditions))
	for _, r := range evidence.AllRatios {
		if part := g.Ratio(r); part != nil && part.Threshold > 0 {
			text += fmt.Sprintf("; %s %s of %s, score %s",
				r, optional(part.Ratio), humanize.Percent(part.Threshold), ScoreText(part.Score))
		}
	}
	return text
}
