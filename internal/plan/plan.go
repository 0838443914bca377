package plan

import (
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Rules are what a policy's steps wait for.
type Rules struct {
	Gate  gate.Config // zero fields mean their defaults
	Steps []gate.Step
	Dwell time.Duration // the least time between two steps
}

// Policy is the plan of one policy. Its JSON form is the command line's contract.
type Policy struct {
	Name string `json:"name"`
	// RequestsPerMinute and DeniedShare are those of the traffic: what the authoritative denies, of all.
	RequestsPerMinute float64 `json:"requests_per_minute"`
	DeniedShare       float64 `json:"denied_share"`
	Cases             []Case  `json:"cases"`
}

// Case is one kind of candidate.
type Case struct {
	// Differences are what the candidate newly denies, in times its threshold; nil as in the log.
	Differences *float64 `json:"differences"`
	Steps       []Step   `json:"steps"`
}

// Step is when a step can be taken.
type Step struct {
	Name    string  `json:"step"`
	Percent float64 `json:"percent"` // of the keys
	// Starts is the number of migrations that were tried, each from another instant of the log; Passed is
	// how many of them reach the step while the ledger keeps their evidence.
	Starts int `json:"starts"`
	Passed int `json:"passed"`
	// Hours are those of the median migration, Hours90 those in which nine of ten are through; nil if
	// fewer reach the step.
	Hours   *float64 `json:"hours"`
	Hours90 *float64 `json:"hours_90"`
	// WaitsFor is what a typical migration waits for at last, or why it never passes.
	WaitsFor string `json:"waits_for"`
}

// horizon is how long evidence is kept: a step that has not passed by then never does.
const horizon = divergence.KeptDays * divergence.MinutesPerDay

// run judges one migration, and returns when each step could be taken.
func (r *Rules) run(trial gate.Evidence) []gate.Arrival {
	return gate.Arrivals(r.Gate.WithDefaults(), trial, r.Steps, r.Dwell)
}

// tally sums up trials, step by step.
func (r *Rules) tally(trials [][]gate.Arrival, since []time.Time) []Step {
	steps := make([]Step, len(r.Steps))
	for i, s := range r.Steps {
		step := Step{Name: s.Name, Percent: s.Percent, Starts: len(trials)}
		hours, reasons := make([]float64, 0, len(trials)), map[bool][]string{}

		for k, arrivals := range trials {
			a := arrivals[i]
			reasons[a.At != nil] = append(reasons[a.At != nil], a.Reason)
			if a.At != nil {
				hours = append(hours, a.At.Sub(since[k]).Hours())
			}
		}

		slices.Sort(hours)
		step.Passed = len(hours)
		step.Hours, step.Hours90 = quantile(hours, len(trials), 50), quantile(hours, len(trials), 90)
		step.WaitsFor = middle(reasons[2*step.Passed > len(trials)])
		steps[i] = step
	}
	return steps
}

// quantile returns the least of the sorted hours within which a percentage of all trials is through; nil
// if fewer are.
func quantile(hours []float64, trials, percent int) *float64 {
	n := max(1, (percent*trials+99)/100)
	if n > len(hours) {
		return nil
	}
	return &hours[n-1]
}

// middle returns one of the reasons, of the trial in the middle.
func middle(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return reasons[len(reasons)/2]
}
