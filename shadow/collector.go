package shadow

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// collector sums the counts when it is scraped: requests touch no metric except the
// duration of sides that are not in memory. All its metrics carry the name of the service.
// policy_metrics.go and service_metrics.go have the lists. Scrapes may run concurrently: they only read.
type collector struct {
	engine      *engine.Engine
	fleet       *fleet.Fleet
	durations   *prometheus.HistogramVec
	reloads     *reloads // nil where there is no file
	policies    []described[reading]
	compared    []described[reading] // of policies with a candidate
	services    []described[*collector]
	differences [2]difference
}

// family is a metric and the source of its values.
type family[S any] struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string // besides policy
	values     func(of S, send sender)
}

// sender takes one value and the values of its labels.
type sender func(v float64, labels ...string)

// described is a family under its full name.
type described[S any] struct {
	family[S]
	desc *prometheus.Desc
}

// reading is the state of a policy at one scrape. It is taken once, so that the series of
// one scrape do not contradict each other: there is one stage, and its percentage.
type reading struct {
	*engine.Policy
	fleet      *fleet.Policy
	totals     evidence.Totals
	applied    stages.State
	assessment *stages.Assessment // nil if it is old
}

func newCollector(i *instance, r *reloads) *collector {
	name := i.cfg.name
	return &collector{
		engine: i.engine, fleet: i.fleet, durations: i.durations, reloads: r,
		policies:    describe(name, policyMetrics, "policy"),
		compared:    describe(name, comparedMetrics, "policy"),
		services:    describe(name, serviceMetrics),
		differences: differences(name),
	}
}

// describe gives families their full names; the first labels are those of all of them.
func describe[S any](name string, families []family[S], first ...string) []described[S] {
	list := make([]described[S], len(families))
	for i, f := range families {
		// Clipped, each append copies: two families must not share the array behind first.
		labels := append(slices.Clip(first), f.labels...)
		desc := prometheus.NewDesc("shadowlimit_"+f.name, f.help, labels, prometheus.Labels{"name": name})
		list[i] = described[S]{f, desc}
	}
	return list
}

func (c *collector) describe(out chan<- *prometheus.Desc) {
	for _, f := range c.services {
		out <- f.desc
	}
	for _, f := range c.policies {
		out <- f.desc
	}
	for _, f := range c.compared {
		out <- f.desc
	}
	for _, h := range c.differences {
		out <- h.desc
	}
	c.durations.Describe(out)
}

func (c *collector) collect(out chan<- prometheus.Metric) {
	for _, f := range c.services {
		f.values(c, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
		})
	}

	// A reload during the scrape does not mix two sets of policies.
	for _, p := range c.engine.Plan.Load().Policies {
		c.collectPolicy(p, out)
	}
	c.durations.Collect(out)
}

func (c *collector) collectPolicy(p *engine.Policy, out chan<- prometheus.Metric) {
	policy := p.Spec.Policy
	tracked := c.fleet.Policy(policy)
	if tracked == nil {
		return // a reload has just dropped it
	}
	r := reading{Policy: p, fleet: tracked, totals: p.Recorder.Totals(), applied: *p.Stage.State(), assessment: tracked.Latest()}
	send := func(families []described[reading]) {
		for _, f := range families {
			f.values(r, func(v float64, labels ...string) {
				out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, append([]string{policy}, labels...)...)
			})
		}
	}
	send(c.policies)
	if !p.HasCandidate() {
		return
	}
	send(c.compared)

	// The recorder counts each bucket by itself, and Prometheus wants sums of all buckets
	// up to a bound.
	for _, h := range c.differences {
		d := h.of(&r.totals)
		count, upTo := d.Cumulative(h.bounds)
		out <- prometheus.MustNewConstHistogram(h.desc, count, d.Sum, upTo, policy)
	}
}
