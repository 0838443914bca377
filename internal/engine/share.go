package engine

import (
	"math/bits"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

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
