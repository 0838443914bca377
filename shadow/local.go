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

// judge returns what the enforced side's limit allows here or, where nothing can stand
// in for that side, the authoritative's, and whose it was; false if nobody asks: sides
// in memory do not fail, and other rules need no limiter. It feeds both sides, for
// either may be the enforced one at the next request.
func (l *local) judge(c *algorithms.Charge, h *hit, instances int64) (algorithms.Decision, algorithms.Role, bool) {
	charge := *c
	charge.At, charge.Sides = time.Time{}, [2]algorithms.Side{}
	asked := false
	for role := range charge.Sides {
		if side, ok := h.localSide(algorithms.Role(role)); ok && h.onFailure == policies.FailLocal {
			side.Limit = divided(h.limits[role], instances)
			charge.Sides[role], asked = side, true
		}
	}
	if !asked {
		return algorithms.Decision{}, c.Enforced, false
	}
	o := l.ask(charge)
	for role, side := range charge.Sides {
		if side.Present() && o[role].Status != algorithms.Judged { // the share of a limit may be too fine to be exact
			whole := charge
			whole.Enforced, whole.Sides = algorithms.Role(role), [2]algorithms.Side{}
			side.Limit = h.limits[role]
			whole.Sides[role] = side
			o[role] = l.ask(whole)[role]
		}
	}
	role := c.Enforced
	if o[role].Status != algorithms.Judged {
		role = algorithms.Authoritative
	}
	return o[role].Decision, role, o[role].Status == algorithms.Judged
}

func (l *local) ask(c algorithms.Charge) [2]algorithms.Observation {
	charges, into := [1]algorithms.Charge{c}, [1][2]algorithms.Observation{}
	if err := l.memory.Evaluate(context.Background(), charges[:], into[:]); err != nil {
		return [2]algorithms.Observation{algorithms.Failure(err), algorithms.Failure(err)}
	}
	return into[0]
}

// foreignIDs name the parts of a key's record that stand in for limiters of the user's
// own.
var foreignIDs = [2]string{"own authoritative", "own candidate"}

// localSide returns what stands in for a side: its own algorithm and, for a limiter
// of the user's own with a limit beside its name, a GCRA.
func (h *hit) localSide(role algorithms.Role) (algorithms.Side, bool) {
	switch {
	case h.limiters[role] != nil:
		return algorithms.Side{ID: foreignIDs[role], Algorithm: algorithms.GCRA{}}, h.limits[role].Requests > 0 && h.limits[role].Window > 0
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
