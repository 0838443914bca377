package engine

import (
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// debts are the keys that a local limiter has allowed a cost above its share of a window.
// Nothing else of such a key is allowed until the share would have admitted the cost, window
// by window. In any time an instance so admits what its share does, and one such cost more.
type debts struct {
	born   time.Time
	last   atomic.Int64 // when the last debt is over, ns since born; 0 before the first
	shards [debtShards]debtShard
}

const (
	debtShards = 64
	// mostDebts bounds the memory, to about 10 MB. Beyond it debts that are not over are
	// forgotten: a key may then spend its share again.
	mostDebts = localKeys / debtShards / 4
)

type debtShard struct {
	mu    sync.Mutex
	until map[debtor]time.Duration // since debts.born
}

// debtor is one side of a key.
type debtor struct {
	policy, key string
	role        algorithms.Role
}

func newDebts() debts { return debts{born: time.Now()} }

// none reports whether no key owes anything. Requests then take no lock.
func (d *debts) none() bool {
	last := d.last.Load()
	return last == 0 || int64(time.Since(d.born)) >= last
}

// left returns how long a debtor has to wait. Requires the shard's lock.
func (d *debts) left(s *debtShard, who debtor, now time.Duration) time.Duration {
	until, owes := s.until[who]
	if owes && until <= now {
		delete(s.until, who)
	}
	return max(0, until-now)
}

// add notes a debt. Requires the shard's lock.
func (d *debts) add(s *debtShard, who debtor, now, until time.Duration) {
	if s.until == nil {
		s.until = map[debtor]time.Duration{}
	}
	if len(s.until) >= mostDebts {
		s.sweep(now)
	}

	// The key may be part of a request's buffer, which is used again.
	who.key = strings.Clone(who.key)
	s.until[who] = until

	// Other shards' debts may be added at the same time.
	last := d.last.Load()
	for int64(until) > last && !d.last.CompareAndSwap(last, int64(until)) {
		last = d.last.Load()
	}
}

// sweep makes room: it drops the debts that are over or, if there are none, any one.
// Requires s.mu.
func (s *debtShard) sweep(now time.Duration) {
	for who, until := range s.until {
		if until <= now {
			delete(s.until, who)
		}
	}
	for who := range s.until {
		if len(s.until) < mostDebts {
			break
		}
		delete(s.until, who)
	}
}

// waits is the answer of a side that has nothing left for a while. A check that only looks
// is allowed all the same.
func waits(check *algorithms.Check, role algorithms.Role, wait time.Duration) algorithms.Observation {
	d := algorithms.Decision{Allowed: check.Cost == 0, Capacity: check.Sides[role].Limit.Capacity(), ResetAfter: wait}
	if !d.Allowed {
		d.RetryAfter = wait
	}
	return algorithms.Observation{Status: algorithms.Judged, Decision: d}
}

// timeToPay is how long a limit needs to admit a cost, rounded up.
func timeToPay(cost int64, l algorithms.Limit) time.Duration {
	hi, lo := bits.Mul64(uint64(cost), uint64(l.Window))
	if hi >= uint64(l.Requests) {
		return longestDebt
	}
	pay, rest := bits.Div64(hi, lo, uint64(l.Requests))
	if rest > 0 {
		pay++
	}
	return time.Duration(min(pay, uint64(longestDebt)))
}

// longestDebt is longer than any process lives, and can be added to a time.
const longestDebt = forever / 4
