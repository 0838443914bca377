package engine

import (
	"context"
	"math/bits"
	"sync"
	"time"

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

// askWithDebts asks the sides of a check, of which some may owe or be asked for more than
// their share. The lock makes looking and charging one step for each key.
func (l *local) askWithDebts(check algorithms.Check, hash uint64, tooLarge [2]bool) Observations {
	shard := &l.large.shards[hash%debtShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := time.Since(l.large.born)

	// A side for which a debt decides is not asked.
	var decided [2]bool
	var o Observations
	rest := check
	for role := range check.Sides {
		if !check.Sides[role].Present() {
			continue
		}
		who := debtor{check.Policy, check.Key, algorithms.Role(role)}
		wait := l.large.left(shard, who, now)

		switch {
		case wait > 0:
			o[role] = waits(&check, who.role, wait)
		case tooLarge[role]:
			o[role] = l.spend(&check, who, shard, now)
		default:
			continue
		}
		decided[role] = true
		rest.Sides[role] = algorithms.Side{}
	}

	judged := l.ask(&rest)
	for role := range judged {
		if !decided[role] {
			o[role] = judged[role]
		}
	}
	return o
}

// spend charges a cost above the share to a side that owes nothing. Something else that was
// spent has to be forgotten first. Requires the shard's lock.
func (l *local) spend(check *algorithms.Check, who debtor, shard *debtShard, now time.Duration) algorithms.Observation {
	peek := *check
	peek.Cost, peek.Sides = 0, [2]algorithms.Side{}
	peek.Sides[who.role] = check.Sides[who.role]
	o := l.ask(&peek)[who.role]
	if o.Status != algorithms.Judged {
		return o
	}
	if o.Decision.ResetAfter > 0 {
		return waits(check, who.role, o.Decision.ResetAfter)
	}

	pay := timeToPay(check.Cost, check.Sides[who.role].Limit)
	l.large.add(shard, who, now, now+pay)
	o.Decision.Remaining, o.Decision.ResetAfter = 0, pay
	return o
}

// askCoarsely asks again for sides that have failed because their algorithm is exact with the
// whole limit and not with a share of it, as a bucket can be. A step finds that out anyway, so
// only these limits take the time to look for it.
func (l *local) askCoarsely(check algorithms.Check, whole [2]algorithms.Limit, o *Observations) {
	for role := range o {
		s := &check.Sides[role]
		if !s.Present() || o[role].Status != algorithms.Failed || s.Limit.Requests <= 0 {
			continue
		}
		if s.Algorithm.Validate(s.Limit) == nil || s.Algorithm.Validate(whole[role]) != nil {
			continue
		}

		again := check
		again.Sides = [2]algorithms.Side{}
		again.Sides[role] = *s
		again.Sides[role].Limit = coarse(s.Limit)
		o[role] = l.ask(&again)[role]
	}
}

// feedTogether feeds the local limiter with the checks of each list, as feed does with one. A cost above the share is denied: a debt
// cannot be undone where another check of the list denies.
func (l *local) feedTogether(s *Scratch, instances int64) {
	s.local = append(s.local[:0], make([]localAnswer, len(s.checks))...)
	var checks []algorithms.Check
	var indexes []int
	for i := range s.listed {
		c, ev := &s.checks[i], &s.evaluations[i]
		if c.Together == 0 || !ev.fedLocally() {
			continue
		}
		check := algorithms.Check{Policy: c.Policy, Key: c.Key, Cost: c.Cost, Enforced: c.Enforced, Together: c.Together}
		for role := range check.Sides {
			if standIn, ok := ev.localSide(algorithms.Role(role)); ok {
				standIn.Limit = partOf(ev.limits[role], instances)
				if standIn.Algorithm.Validate(standIn.Limit) != nil {
					standIn.Limit = coarse(standIn.Limit)
				}
				check.Sides[role] = standIn
			}
		}
		checks, indexes = append(checks, check), append(indexes, i)
	}
	if len(checks) == 0 {
		return // in memory nothing fails
	}

	into := make([]Observations, len(checks))
	_ = l.memory.Evaluate(context.Background(), checks, into) // each observation has its error
	for n, i := range indexes {
		s.local[i] = answerOfLocal(s.checks[i].Enforced, &into[n])
	}
}

// shareOf is one instance's share of a limit, and whether a check of that cost is too large
// for the share and not for the limit. It is rounded up: a limit below the number of
// instances must not become zero, which would deny everything.
//
// A cost above the share is allowed where nothing else is spent, and the share then pays for
// it: otherwise a client whose requests cost more would be locked out of each instance. An
// algorithm with a burst owes it by itself, if its burst is the cost. A window cannot owe
// more than it admits: see debts.
func shareOf(a algorithms.Algorithm, whole algorithms.Limit, instances, cost int64) (share algorithms.Limit, tooLarge bool) {
	share = partOf(whole, instances)

	tooLarge = cost > share.Capacity() && cost <= whole.Capacity()
	if !tooLarge || algorithms.TraitsOf(a).Burst == algorithms.BurstRefused {
		return share, tooLarge
	}

	share.Burst = cost
	return share, false
}

// partOf is one instance's part of a limit, rounded up.
func partOf(whole algorithms.Limit, instances int64) algorithms.Limit {
	part := func(n int64) int64 { return n/instances + (n%instances+instances-1)/instances }
	whole.Requests, whole.Burst = part(whole.Requests), part(whole.Burst)
	return whole
}

// coarse is a limit near one that is too fine for a bucket to be exact, at most a thousandth
// above it: a bucket needs the ratio of requests and window in lowest terms. The whole limit,
// which is exact, would be allowed on each instance.
func coarse(l algorithms.Limit) algorithms.Limit {
	burst := l.Capacity()
	if interval := l.Window / time.Duration(l.Requests); interval >= time.Millisecond {
		return algorithms.Limit{Requests: 1, Window: interval.Truncate(time.Microsecond), Burst: burst}
	}

	// More than a thousand a second. A rate of more than a number can hold was exact.
	hi, lo := bits.Mul64(uint64(l.Requests), uint64(time.Second))
	if hi >= uint64(l.Window) {
		return l
	}
	perSecond, rest := bits.Div64(hi, lo, uint64(l.Window))
	if rest > 0 {
		perSecond++
	}
	return algorithms.Limit{Requests: int64(perSecond), Window: time.Second, Burst: burst}
}
