package engine

import (
	"context"
	"sync"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// local decides in this process where a store does not. Every request of a
// policy with on_store_failure: local and a side outside of this process feeds it, so it
// knows what each key has spent when it is needed. Each of n live
// instances allows an n-th of a limit, rounded up, or the whole of one that is per process, and a cost above that if nothing else is
// spent; see shareOf. It is fed all the time, and not only in an outage: a limiter
// that began empty would give each key a full budget again.
type local struct {
	memory *algorithms.Memory
	large  debts
	checks sync.Pool // of *[1]algorithms.Check, so that a request does not allocate one
}

func newLocal() *local {
	return &local{memory: algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: localKeys}), large: newDebts()}
}

// localKeys bounds the local limiter's memory to about 100 MB. Beyond that many active
// keys, the keys that have spent least begin again.
const localKeys = 1 << 18

// localAnswer is the local limiter's decision and the role it came from. It is not ok
// where the local limiter was not asked, or has no decision.
type localAnswer struct {
	decision algorithms.Decision
	role     algorithms.Role
	ok       bool
}

// feed charges the local limiter, and returns what it allows by the enforced side's
// limit or, where nothing can stand in for that side, by the authoritative's. It charges
// both sides, for either may be the enforced one at the next request. Sides in memory do
// not fail: they are not charged.
func (l *local) feed(c *algorithms.Check, ev *evaluation, instances int64) localAnswer {
	// The local limiter has records of its own, which always go by this process's clock and
	// are compared with nothing.
	check := algorithms.Check{Policy: c.Policy, Key: c.Key, Cost: c.Cost, Enforced: c.Enforced}
	asked, tooLarge := false, [2]bool{}
	for role := range check.Sides {
		if standIn, ok := ev.localSide(algorithms.Role(role)); ok {
			share := instances
			if ev.Sides[role].each {
				share = 1 // the limit is one instance's already
			}
			standIn.Limit, tooLarge[role] = shareOf(standIn.Algorithm, ev.limits[role], share, c.Cost)
			check.Sides[role], asked = standIn, true
		}
	}
	if !asked {
		return localAnswer{role: c.Enforced}
	}

	var o Observations
	if tooLarge == [2]bool{} && l.large.none() {
		o = l.ask(&check)
	} else {
		o = l.askWithDebts(check, ev.hash, tooLarge)
	}
	l.askCoarsely(check, ev.limits, &o)

	return answerOfLocal(c.Enforced, &o)
}

// answerOfLocal is the local limiter's answer. The order is that of decide: a candidate without an answer leaves it to the
// authoritative.
func answerOfLocal(enforced algorithms.Role, o *Observations) localAnswer {
	role := enforced
	if o[role].Status != algorithms.Judged {
		role = algorithms.Authoritative
	}
	return localAnswer{o[role].Decision, role, o[role].Status == algorithms.Judged}
}

func (l *local) ask(c *algorithms.Check) Observations {
	checks, ok := l.checks.Get().(*[1]algorithms.Check)
	if !ok {
		checks = new([1]algorithms.Check)
	}

	checks[0] = *c
	into := [1]Observations{}
	err := l.memory.Evaluate(context.Background(), checks[:], into[:])
	checks[0] = algorithms.Check{} // a pool keeps no client's key
	l.checks.Put(checks)
	if err != nil {
		return Observations{algorithms.Failure(err), algorithms.Failure(err)}
	}
	return into[0]
}

// localCustomIDs name the parts of a key's local record that stand in for custom
// limiters. They differ, because both sides may be custom.
var localCustomIDs = [2]string{"custom authoritative", "custom candidate"}

// localSide returns what stands in for a side: its own algorithm or, for a custom
// limiter with a limit beside its name, a GCRA.
func (ev *evaluation) localSide(role algorithms.Role) (algorithms.Side, bool) {
	s, limit := &ev.Sides[role], &ev.limits[role]
	switch {
	case s.custom != nil:
		return algorithms.Side{ID: localCustomIDs[role], Algorithm: algorithms.GCRA{}}, limit.Requests > 0 && limit.Window > 0
	case !s.Remote():
		return algorithms.Side{}, false
	}
	return ev.asked(role), true
}
