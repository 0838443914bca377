package replay

import (
	"context"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// probe is another candidate, with a share of the limit of the one that was asked about. No proposed threshold may let
// it pass: a threshold describes a candidate, and must not certify another limit.
type probe struct {
	part, of int64
	words    string
	ratios   []divergence.Ratio // that it differs by
}

var probes = []probe{
	{3, 4, "three quarters", []divergence.Ratio{divergence.OfComparisons, divergence.OfAllows}},
	{4, 3, "four thirds", []divergence.Ratio{divergence.OfDenials, divergence.ExtraLoad}},
}

// scale returns the limit with the probe's share of its requests and its burst, at least 1. A limit of 0 has no share.
func (p *probe) scale(l algorithms.Limit) algorithms.Limit {
	if l.Requests == 0 {
		return l
	}

	l.Requests = max(1, l.Requests*p.part/p.of)
	if l.Burst > 0 {
		l.Burst = max(1, l.Burst*p.part/p.of)
	}
	return l
}

// bound leaves out the proposals by which a probe would pass: those above its own ratios.
func (r *run) bound(ctx context.Context, report *PolicyReport) error {
	for i := range probes {
		p := &probes[i]
		asked := false
		for _, ratio := range p.ratios {
			asked = asked || report.Proposed.Threshold(ratio) != nil
		}
		if !asked {
			continue
		}

		// It is judged in memory, whatever the store: only its numbers are of interest.
		cfg := r.cfg
		cfg.Decisions, cfg.Progress = nil, nil
		cfg.Pair = algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
		other := newRun(r.events, cfg)
		other.change, other.causes = p.scale, nil
		if err := other.judgeAll(ctx); err != nil {
			return err
		}
		for _, ratio := range p.ratios {
			// A probe that does not differ in this way says nothing: the limit was far below today's.
			if v := ratio.Value(other.total); v != nil && *v > 0 {
				report.Proposed.Bound(ratio, *v, p.words)
			}
		}
	}
	return nil
}
