package shadow

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// collector sums what was counted when it is scraped: requests touch no metric but
// the duration of what is not in memory. All its metrics carry the name of the
// service; what they are is in metrics.go.
type collector struct {
	engine      *engine
	durations   *prometheus.HistogramVec
	reloads     *reloads // nil where there is no file
	policies    []described[reading]
	services    []described[*collector]
	differences [2]difference
}

// family is a metric and where its values come from.
type family[S any] struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string // besides policy
	values     func(of S, send sender)
}

// sender takes one value and those of its labels.
type sender func(v float64, labels ...string)

type described[S any] struct {
	family[S]
	desc *prometheus.Desc
}

// reading is a policy when it is scraped.
type reading struct {
	*migration
	totals     divergence.Totals
	applied    promotion.State
	assessment *promotion.Assessment // nil if it is old
}

func newCollector(i *instance, r *reloads) *collector {
	name := i.cfg.name
	return &collector{
		engine: i.engine, durations: i.durations, reloads: r,
		policies:    describe(name, policyMetrics, "policy"),
		services:    describe(name, serviceMetrics),
		differences: differences(name),
	}
}

func describe[S any](name string, families []family[S], first ...string) []described[S] {
	list := make([]described[S], len(families))
	for i, f := range families {
		list[i] = described[S]{f, prometheus.NewDesc("shadowlimit_"+f.name, f.help, append(first[:len(first):len(first)], f.labels...), prometheus.Labels{"name": name})}
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
	for _, h := range c.differences {
		out <- h.desc
	}
	c.durations.Describe(out)
}

func (c *collector) collect(out chan<- prometheus.Metric) {
	for _, f := range c.services {
		f.values(c, func(v float64, labels ...string) { out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...) })
	}
	for _, m := range c.engine.plan.Load().migrations {
		c.collectPolicy(m, out)
	}
	c.durations.Collect(out)
}

func (c *collector) collectPolicy(m *migration, out chan<- prometheus.Metric) {
	r := reading{m, m.recorder.Totals(), *m.stage.state.Load(), m.latest()}
	policy := m.spec.Policy
	for _, f := range c.policies {
		f.values(r, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, append([]string{policy}, labels...)...)
		})
	}
	for _, h := range c.differences {
		if m.hasCandidate() {
			d := h.of(&r.totals)
			count, upTo := d.Cumulative(h.bounds)
			out <- prometheus.MustNewConstHistogram(h.desc, count, d.Sum, upTo, policy)
		}
	}
}
