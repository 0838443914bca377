package replay

import (
	"context"

	"github.com/shadowlimit/shadowlimit/internal/plan"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Record replays the events, which it sorts, and returns what a plan needs of them. The configuration's gate and step are
// not used.
func Record(ctx context.Context, events *Events, cfg Config) (*plan.Recording, error) {
	r := newRun(events, cfg)
	r.denials, r.causes = []plan.Denial{}, nil
	if err := r.judgeAll(ctx); err != nil {
		return nil, err
	}
	return &plan.Recording{Minutes: r.minutes, Live: r.live(), Keys: int64(len(events.keys)), Denials: r.denials}, nil
}

// live returns when the log has lines. Where it is not given, the events are all of its lines.
func (r *run) live() []divergence.Span {
	if r.cfg.Live != nil {
		return r.cfg.Live
	}
	var p Presence
	for e := range r.events.list.all() {
		p.Add(e.at)
	}
	return p.Stretches().Live
}
