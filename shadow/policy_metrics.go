package shadow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue

// policyMetrics are those of each policy.
var policyMetrics = []family[reading]{
	{
		"decisions_total", "Checks judged, by side, by that side's decision: allow, deny or error, and by whether the side was " +
			"enforced for the key. Clients get the allow and deny of enforced true, and for its error those of fallback_decisions_total.",
		counter, []string{"side", "decision", "enforced"}, func(r reading, send sender) {
			for role, all := range r.totals.Decisions {
				if role == int(algorithms.Authoritative) || r.HasCandidate() {
					side, own := algorithms.Role(role).String(), r.totals.Enforced[role]
					send(float64(own.Allowed), side, "allow", "true")
					send(float64(own.Denied), side, "deny", "true")
					send(float64(own.Failed), side, "error", "true")
					send(float64(all.Allowed-own.Allowed), side, "allow", "false")
					send(float64(all.Denied-own.Denied), side, "deny", "false")
					send(float64(all.Failed-own.Failed), side, "error", "false")
				}
			}
		},
	},
	{
		"policy_errors_total",
		"Requests for which an expression failed: they are not charged; where first failed, their key is not pinned; where settle failed, their cost stays.",
		counter, nil, func(r reading, send sender) {
			send(float64(r.Errors()))
		},
	},
	{
		"settlements_total",
		"Settlements that have not made a cost final, by why: late, because what was charged counts no more; repeated, because " +
			"it was settled before; or lost, because a store has not answered. Absent without settle, until there is one.",
		counter, []string{"result"}, func(r reading, send sender) {
			list := r.Unsettled()
			if !r.Settles() && list == [len(list)]int64{} {
				return
			}
			for i, n := range list {
				send(float64(n), engine.SettlementResults[i])
			}
		},
	},
	{
		"adaptive_level", "The part of an adaptive side's limit that holds in this instance, up to 1; absent for other sides.",
		gauge, []string{"side"}, func(r reading, send sender) {
			for role, h := range r.Holdings() {
				if h != nil {
					send(float64(h.Level())/float64(adaptive.Full), algorithms.Role(role).String())
				}
			}
		},
	},
	{
		"fallback_decisions_total",
		"Checks whose enforced side did not answer, by the limiter that decided: the authoritative in place of a candidate, the local " +
			"one, or none where on_store_failure allows or denies every request; and by the decision, allow or deny.",
		counter, []string{"limiter", "decision"}, func(r reading, send sender) {
			for _, f := range r.Fallbacks() {
				send(float64(f.Denied), f.Limiter, "deny")
				send(float64(f.Allowed), f.Limiter, "allow")
			}
		},
	},
	{
		"policy_label", "1 for each label of the policy: the name and the text that the policy file gives it.",
		gauge, []string{"label", "text"}, func(r reading, send sender) {
			for name, text := range r.Spec.Labels {
				send(1, name, text)
			}
		},
	},
}

// comparedMetrics are those of each policy with a candidate, besides. Assessed metrics are the fleet's, as every instance
// sees it.
var comparedMetrics = []family[reading]{
	{
		"async_queue_length", "Checks that wait for the side that is asked after the answer to the request.",
		gauge, nil, func(r reading, send sender) {
			send(float64(r.Waiting()))
		},
	},
	{
		"comparisons_total",
		"Evaluations, by outcome: checks of a policy with a candidate, but for peeks and completed migrations; " +
			"inconclusive and authoritative_error are not compared. The fingerprint is the one that this instance compares now.",
		counter, []string{"outcome", "fingerprint"}, func(r reading, send sender) {
			for outcome, n := range r.totals.Outcomes {
				send(float64(n), evidence.Outcome(outcome).String(), r.Spec.Fingerprint)
			}
		},
	},
	{
		"divergence_causes_total", "Differences by direction and probable cause.",
		counter, []string{"direction", "cause"}, func(r reading, send sender) {
			for _, cause := range evidence.AllCauses {
				send(float64(r.totals.Denied[cause]), "newly_denied", cause.String())
				send(float64(r.totals.Allowed[cause]), "newly_allowed", cause.String())
			}
		},
	},
	{
		"skipped_comparisons_total", "Inconclusive comparisons, by reason.",
		counter, []string{"reason", "fingerprint"}, func(r reading, send sender) {
			for reason, n := range r.totals.Skipped {
				send(float64(n), algorithms.SkipReason(reason).String(), r.Spec.Fingerprint)
			}
		},
	},
	{
		"transitions_total", "How often this instance has begun to apply a stage.",
		counter, []string{"stage"}, func(r reading, send sender) {
			for i, stage := range stages.Stages {
				send(float64(r.Stage.Begun(i)), string(stage))
			}
		},
	},
	{
		"stage", "1 for the stage that this instance applies, 0 for the others.",
		gauge, []string{"stage"}, func(r reading, send sender) {
			for _, stage := range stages.Stages {
				send(boolean(r.applied.Stage == stage), string(stage))
			}
		},
	},
	{
		"stage_undone", "1 while the policy is in shadow, and the policy file before it had a canary or a promotion, to which it would return.",
		gauge, nil, func(r reading, send sender) { send(boolean(r.applied.Undone() != nil)) },
	},
	{
		"stage_changed_timestamp_seconds", "When the stage or its share of the keys began; absent before the instance knows it.",
		gauge, nil, func(r reading, send sender) {
			if !r.applied.StageAt.IsZero() {
				send(float64(r.applied.StageAt.UnixMilli()) / 1000)
			}
		},
	},
	{
		"canary_ratio", "Share of the keys for which the candidate is enforced, apart from keys of first.",
		gauge, nil, func(r reading, send sender) { send(r.applied.Share() / 100) },
	},
	{
		"hold", "1 while automation is stopped for the policy.",
		gauge, nil, func(r reading, send sender) { send(boolean(r.applied.Hold)) },
	},
	{
		"gate_score", "Evidence that a ratio stays below its threshold.",
		gauge, []string{"ratio"}, byRatio(func(g *gate.RatioResult) float64 { return g.Score }),
	},
	{
		"gate_regression", "Evidence that a ratio has risen above its threshold.",
		gauge, []string{"ratio"}, byRatio(func(g *gate.RatioResult) float64 { return g.Regression }),
	},
	{
		"gate_threshold", "The value that a ratio has to stay below; absent for one that is not judged.",
		gauge, []string{"ratio"}, func(r reading, send sender) {
			for _, ratio := range r.Spec.Ratios() {
				judged := !ratio.ByCost() || r.assessment != nil && r.assessment.Gate.ByCost != nil
				if p0 := r.Spec.Config.Threshold(ratio); p0 > 0 && judged {
					send(p0, ratio.String())
				}
			}
		},
	},
	{
		"gate_bar", "What scores are compared with: for the next step the evidence has to reach it and the regression to stay below it, and at " +
			"that of harm an automatic policy is rolled back.",
		gauge, []string{"score"}, func(r reading, send sender) {
			ofEvidence, regression, harm := gate.Bars(stages.StepAfter(r.applied, r.Spec.Config.Canary).Percent)
			send(ofEvidence, "evidence")
			send(regression, "regression")
			send(harm, "harm")
		},
	},
	{
		"gate_condition", "1 for each condition of the next step that is met, 0 for one that is not.",
		gauge, []string{"condition"}, assessed(func(a *stages.Assessment, send sender) {
			met := map[string]bool{} // what another version has published may name one twice, which would end the scrape
			for _, c := range a.Gate.Conditions {
				was, twice := met[c.Name]
				met[c.Name] = c.Met && (was || !twice)
			}
			for name := range met {
				send(boolean(met[name]), name)
			}
		}),
	},
	{
		"gate_not_before_timestamp_seconds", "When time alone allows the next step; absent where it does not forbid it.",
		gauge, nil, assessed(func(a *stages.Assessment, send sender) {
			if a.Gate.NotBefore != nil {
				send(float64(a.Gate.NotBefore.Unix()))
			}
		}),
	},
	{
		"gate_ratio", "A ratio over all the evidence; absent while its denominator is 0. Those by cost are there once a check has cost another number than 1.",
		gauge, []string{"ratio"}, assessed(func(a *stages.Assessment, send sender) {
			for _, ratio := range a.Spec.Ratios() {
				if part := a.Gate.Ratio(ratio); part != nil && part.Ratio != nil {
					send(*part.Ratio, ratio.String())
				}
			}
		}),
	},
	{
		"gate_verdict", "1 for the gate's verdict, 0 for the others.",
		gauge, []string{"verdict"}, assessed(func(a *stages.Assessment, send sender) {
			for _, verdict := range gate.Verdicts {
				send(boolean(a.Gate.Verdict == verdict), verdict)
			}
		}),
	},
	{
		"gate_coverage_ratio", "Share of the last day's evaluations that could be compared; absent without evaluations.",
		gauge, nil, assessed(func(a *stages.Assessment, send sender) {
			if a.Gate.Coverage != nil {
				send(*a.Gate.Coverage)
			}
		}),
	},
	{
		"gate_disturbed_ratio", "Share of the last day's time that is disturbed, and so no evidence; absent without a live instance in it.",
		gauge, nil, assessed(func(a *stages.Assessment, send sender) {
			if a.Gate.Disturbed != nil {
				send(*a.Gate.Disturbed)
			}
		}),
	},
	{
		"other_fingerprint", "1 while the fleet compares something else than this instance, which then enforces the authoritative, " +
			"or the candidate that it has completed.",
		gauge, nil, func(r reading, send sender) { send(boolean(r.fleet.Differs())) },
	},
	{
		"harm_score", "Score of clients that an enforced candidate newly denies.",
		gauge, nil, assessed(func(a *stages.Assessment, send sender) { send(a.Alarm.Harm) }),
	},
	{
		"alarm", "1 while an enforced candidate does harm; status says which.",
		gauge, nil, assessed(func(a *stages.Assessment, send sender) { send(boolean(a.Alarm.Reason != "")) }),
	},
	{
		"instances", "Instances that are live, and those that fell silent recently.",
		gauge, []string{"state"}, assessed(func(a *stages.Assessment, send sender) {
			send(float64(a.Evidence.Live), "live")
			send(float64(a.SilentThen), "silent")
		}),
	},
	{
		"assessment_age_seconds", "Time since the last evaluation that this instance has heard of; before the first one, " +
			"since its start. It grows where the store cannot be reached.",
		gauge, nil, func(r reading, send sender) { send(r.fleet.AssessmentAge().Seconds()) },
	},
	{
		"evidence_age_seconds", "For how long the fleet may not know what this instance has counted. It grows while writing fails.",
		gauge, nil, func(r reading, send sender) { send(r.fleet.EvidenceAge().Seconds()) },
	},
	{
		"keys", "Distinct keys since the evidence began: seen, denied by the authoritative, newly denied, newly allowed.",
		gauge, []string{"kind"}, assessed(func(a *stages.Assessment, send sender) {
			for kind, n := range a.Evidence.History.Distinct {
				send(float64(n), evidence.KeyKind(kind).String())
			}
		}),
	},
}

// newDurations is the histogram of how long sides took. Sides in this process's memory are
// not in it: measuring them would cost more than deciding.
func newDurations(name string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "shadowlimit_evaluation_duration_seconds",
		Help:        durationHelp,
		ConstLabels: prometheus.Labels{"name": name},

		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1},

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, engine.DurationLabels)
}

const durationHelp = "How long a side took, in Redis or in a custom limiter; absent for sides in memory. The fingerprint is the one that this " +
	"instance compares now."

// difference is a histogram of the candidate's numbers minus the authoritative's.
type difference struct {
	name, help string
	desc       *prometheus.Desc
	bounds     [len(evidence.RemainingBounds)]float64
	of         func(*evidence.Totals) *evidence.Differences
}

func differences(service string) [2]difference {
	list := [2]difference{
		{
			name: "remaining_difference", help: "The candidate's remaining minus the authoritative's, where both know it.",
			bounds: evidence.RemainingBounds,
			of:     func(t *evidence.Totals) *evidence.Differences { return &t.Remaining },
		},
		{
			name: "retry_after_difference_seconds", help: "The candidate's wait minus the authoritative's, where both deny.",
			bounds: evidence.RetryAfterBounds,
			of:     func(t *evidence.Totals) *evidence.Differences { return &t.RetryAfter },
		},
	}

	labels := prometheus.Labels{"name": service}
	for i := range list {
		list[i].desc = prometheus.NewDesc("shadowlimit_"+list[i].name, list[i].help, []string{"policy"}, labels)
	}
	return list
}
