package shadow

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// local decides in this process where a store does not. It is fed by every request
// that a store judges, so it knows who has spent what when it is needed. Each of n
// live instances allows an n-th of a limit, rounded up.
type local struct{ memory *algorithms.Memory }

func newLocal() *local {
	return &local{algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: localKeys})}
}

// localKeys bounds the local limiter's memory to about 100 MB. Beyond that many
// active keys those that have spent least begin anew.
const localKeys = 1 << 18

// judge returns what the enforced side's limit allows here, and false if nobody
// asks: sides in memory do not fail, and other rules need no limiter.
func (l *local) judge(c *algorithms.Charge, h *hit, instances int64) (algorithms.Decision, bool) {
	side, ok := h.localSide(c.Enforced)
	if !ok || h.onFailure != policies.FailLocal {
		return algorithms.Decision{}, false
	}
	charge := *c
	charge.At, charge.Enforced, charge.Sides = time.Time{}, c.Enforced, [2]algorithms.Side{}
	var o algorithms.Observation
	for _, n := range [...]int64{instances, 1} { // the share of a limit may be too fine to be exact
		side.Limit = divided(h.limits[c.Enforced], n)
		charge.Sides[c.Enforced] = side
		if o = l.ask(charge); o.Err == nil {
			break
		}
	}
	return o.Decision, o.Err == nil
}

func (l *local) ask(c algorithms.Charge) algorithms.Observation {
	charges, into := [1]algorithms.Charge{c}, [1][2]algorithms.Observation{}
	if err := l.memory.Evaluate(context.Background(), charges[:], into[:]); err != nil {
		return algorithms.Observation{Err: err}
	}
	return into[0][c.Enforced]
}

// localSide returns what stands in for a side: its own algorithm and, for a limiter
// of the user's own with a limit beside its name, a GCRA.
func (h *hit) localSide(role algorithms.Role) (algorithms.Side, bool) {
	switch {
	case h.limiters[role] != nil:
		return algorithms.Side{Algorithm: algorithms.GCRA{}}, h.limits[role].Requests > 0 && h.limits[role].Window > 0
	case h.stores[role] == nil || !h.stores[role].remote():
		return algorithms.Side{}, false
	}
	return h.own[role], true
}

// divided is one instance's share of a limit.
func divided(l algorithms.Limit, instances int64) algorithms.Limit {
	share := func(n int64) int64 { return (n + instances - 1) / instances }
	return algorithms.Limit{Requests: share(l.Requests), Window: l.Window, Burst: share(l.Burst)}
}
