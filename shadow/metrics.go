package shadow

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// collector sums what the migrations counted when it is scraped: requests touch
// no metric. All its metrics carry the name of the service.
type collector struct {
	engine  *engine
	reloads *reloads // nil where there is no file

	queue, breaker, button, reloaded, reloadedAt                     *prometheus.Desc
	decisions, comparisons, stage, percent, score, errors, fallbacks *prometheus.Desc
}

func newCollector(e *engine, r *reloads) collector {
	whole := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("shadowlimit_"+metric, help, labels, prometheus.Labels{"name": e.name})
	}
	desc := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("shadowlimit_"+metric, help, append([]string{"policy"}, labels...), prometheus.Labels{"name": e.name})
	}
	return collector{
		engine:      e,
		reloads:     r,
		breaker:     whole("breaker_open", "1 while a store is not asked because it failed again and again; store \"\" is the service's own.", "store"),
		button:      whole("red_button_pressed", "1 while this instance enforces the authoritative whatever the stage."),
		reloaded:    whole("config_last_reload_successful", "1 if the policy file could be used when it was last read."),
		reloadedAt:  whole("config_last_reload_success_timestamp_seconds", "When policies were last taken into use."),
		queue:       desc("follower_queue_length", "Charges that wait for a side which is judged behind the request."),
		decisions:   desc("decisions_total", "Charges judged, by side, and what the side decided: allow, deny or error.", "side", "decision"),
		comparisons: desc("comparisons_total", "Charges judged by both sides, by outcome.", "outcome"),
		stage:       desc("stage", "1 for the stage that this instance applies, 0 for the others.", "stage"),
		percent:     desc("canary_ratio", "Share of the keys for which the candidate is enforced."),
		score:       desc("gate_score", "Evidence that a ratio stays below its threshold; 20 is enough.", "ratio"),
		errors:      desc("policy_errors_total", "Requests that a policy did not charge because an expression failed."),
		fallbacks:   desc("fallback_decisions_total", "Charges whose enforced side did not answer, so that the authoritative or the rule for store failures decided."),
	}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.queue, c.breaker, c.button, c.reloaded, c.reloadedAt, c.decisions, c.comparisons, c.stage, c.percent, c.score, c.errors, c.fallbacks} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range c.engine.stores {
		gauge(c.breaker, boolean(s.breaker.open()), s.name)
	}
	gauge(c.button, boolean(c.engine.button.pressed()))
	if c.reloads != nil {
		gauge(c.reloaded, boolean(!c.reloads.failed.Load()))
		gauge(c.reloadedAt, float64(c.reloads.last.Load()))
	}
	for _, m := range c.engine.plan.Load().migrations {
		c.collect(m, out)
	}
}

func (c collector) collect(m *migration, out chan<- prometheus.Metric) {
	policy := m.spec.Policy
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, t, v, append([]string{policy}, labels...)...)
	}
	tally, decisions := m.recorder.Totals()
	send(c.queue, prometheus.GaugeValue, float64(m.followers.waiting()))
	send(c.errors, prometheus.CounterValue, float64(m.errors.Load()))
	send(c.fallbacks, prometheus.CounterValue, float64(m.fallbacks.Load()))
	for role, d := range decisions {
		if algorithms.Role(role) == algorithms.Candidate && !m.candidate {
			return // a plain limiter has nothing more to tell
		}
		side := algorithms.Role(role).String()
		send(c.decisions, prometheus.CounterValue, float64(d.Allowed), side, "allow")
		send(c.decisions, prometheus.CounterValue, float64(d.Denied), side, "deny")
		send(c.decisions, prometheus.CounterValue, float64(d.Failed), side, "error")
	}
	for outcome, n := range tally {
		send(c.comparisons, prometheus.CounterValue, float64(n), divergence.Outcome(outcome).String())
	}
	state := m.state.Load()
	for _, stage := range promotion.Stages {
		send(c.stage, prometheus.GaugeValue, boolean(state.Stage == stage), string(stage))
	}
	send(c.percent, prometheus.GaugeValue, state.Percent/100)
	for _, r := range divergence.AllRatios {
		score := 1.0 // the score of no evidence
		if a := m.assessment.Load(); a != nil {
			score = a.Gate.Ratio(r).Score
		}
		send(c.score, prometheus.GaugeValue, score, r.String())
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
