package shadow

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// collector sums what the migrations counted when it is scraped: requests touch
// no metric.
type collector struct{ migrations []*migration }

var (
	decisionsDesc = prometheus.NewDesc("shadowlimit_decisions_total",
		"Charges judged, by side, and what the side decided: allow, deny or error.", []string{"policy", "side", "decision"}, nil)
	comparisonsDesc = prometheus.NewDesc("shadowlimit_comparisons_total",
		"Charges judged by both sides, by outcome.", []string{"policy", "outcome"}, nil)
	stageDesc = prometheus.NewDesc("shadowlimit_stage",
		"1 for the stage that this instance applies, 0 for the others.", []string{"policy", "stage"}, nil)
	percentDesc = prometheus.NewDesc("shadowlimit_canary_ratio",
		"Share of the keys for which the candidate is enforced.", []string{"policy"}, nil)
	scoreDesc = prometheus.NewDesc("shadowlimit_gate_score",
		"Evidence that a ratio stays below its threshold; 20 is enough.", []string{"policy", "ratio"}, nil)
	errorsDesc = prometheus.NewDesc("shadowlimit_policy_errors_total",
		"Requests that a policy did not charge because an expression failed.", []string{"policy"}, nil)
	fallbacksDesc = prometheus.NewDesc("shadowlimit_fallback_decisions_total",
		"Charges decided by the rule for store failures, because the enforced side did not answer.", []string{"policy"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{decisionsDesc, comparisonsDesc, stageDesc, percentDesc, scoreDesc, errorsDesc, fallbacksDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.migrations {
		m.collect(out)
	}
}

func (m *migration) collect(out chan<- prometheus.Metric) {
	policy := m.spec.Policy
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, t, v, append([]string{policy}, labels...)...)
	}
	tally, decisions := m.recorder.Totals()
	send(errorsDesc, prometheus.CounterValue, float64(m.errors.Load()))
	send(fallbacksDesc, prometheus.CounterValue, float64(m.fallbacks.Load()))
	for role, d := range decisions {
		if algorithms.Role(role) == algorithms.Candidate && !m.candidate {
			return // a plain limiter has nothing more to tell
		}
		side := algorithms.Role(role).String()
		send(decisionsDesc, prometheus.CounterValue, float64(d.Allowed), side, "allow")
		send(decisionsDesc, prometheus.CounterValue, float64(d.Denied), side, "deny")
		send(decisionsDesc, prometheus.CounterValue, float64(d.Failed), side, "error")
	}
	for outcome, n := range tally {
		send(comparisonsDesc, prometheus.CounterValue, float64(n), divergence.Outcome(outcome).String())
	}
	state := m.state.Load()
	for _, stage := range promotion.Stages {
		send(stageDesc, prometheus.GaugeValue, boolean(state.Stage == stage), string(stage))
	}
	send(percentDesc, prometheus.GaugeValue, state.Percent/100)
	for _, r := range divergence.AllRatios {
		score := 1.0 // the score of no evidence
		if a := m.assessment.Load(); a != nil {
			score = a.Gate.Ratio(r).Score
		}
		send(scoreDesc, prometheus.GaugeValue, score, r.String())
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
