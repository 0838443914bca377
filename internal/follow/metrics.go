package follow

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Lines are what has become of the lines of the logs.
type Lines struct {
	Read       int64 // requests at an instant that the ledger takes
	Unreadable int64
	TooOld     int64 // requests of more than 110 minutes ago: only the candidates have seen them
	Ahead      int64 // requests that are ahead of the ledger's clock, likewise
}

type counters struct {
	read, unreadable, old, ahead atomic.Int64
	until                        atomic.Int64
}

func (c *counters) set(l Lines) {
	c.read.Store(l.Read)
	c.unreadable.Store(l.Unreadable)
	c.old.Store(l.TooOld)
	c.ahead.Store(l.Ahead)
}

func (c *counters) lines() Lines {
	return Lines{c.read.Load(), c.unreadable.Load(), c.old.Load(), c.ahead.Load()}
}

type collector struct {
	follower      *Follower
	lines, behind *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.lines
	out <- c.behind
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	l := c.follower.Lines()
	for _, one := range []struct {
		result string
		n      int64
	}{{"read", l.Read}, {"unreadable", l.Unreadable}, {"too_old", l.TooOld}, {"ahead", l.Ahead}} {
		out <- prometheus.MustNewConstMetric(c.lines, prometheus.CounterValue, float64(one.n), one.result)
	}
	if until := c.follower.counts.until.Load(); until > 0 {
		behind := max(0, c.follower.cfg.Fleet.Now().Sub(time.UnixMicro(until)).Seconds())
		out <- prometheus.MustNewConstMetric(c.behind, prometheus.GaugeValue, behind)
	}
}
