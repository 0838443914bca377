package limitertest

import (
	"math/big"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// window returns the aligned window of t, [kW, (k+1)W). Its division rounds down for
// instants before the epoch, too.
func window(w, t int64) (start, end int64) {
	k := new(big.Int).Div(big.NewInt(t), big.NewInt(w)).Int64() // Euclidean
	return k * w, (k + 1) * w
}

// micros returns the window in microseconds, the unit of every instant of the oracle.
func micros(l algorithms.Limit) int64 { return l.Window.Microseconds() }

// fixedWindow: allow iff the admitted cost in the window + c <= L.
type fixedWindow struct{ last, count int64 }

// counted returns the cost that was admitted in the window of t.
func (r *fixedWindow) counted(l algorithms.Limit, t int64) int64 {
	if start, end := window(micros(l), t); r.last >= start && r.last < end {
		return r.count
	}
	return 0
}

// A cost is admitted if the count of the window stays within the limit.
func (r *fixedWindow) allows(l algorithms.Limit, cost, t int64) bool {
	return r.counted(l, t)+cost <= l.Requests
}

// A window that is over says nothing.
func (r *fixedWindow) unused(l algorithms.Limit, t int64) bool { return r.counted(l, t) == 0 }

// The cost counts in the window of its instant.
func (r *fixedWindow) admit(l algorithms.Limit, cost, t int64) {
	r.last, r.count = t, r.counted(l, t)+cost
}

// A window holds nothing up.
func (r *fixedWindow) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: the count belongs to the window of the new instant.
func (r *fixedWindow) move(_ algorithms.Limit, _, to int64) { r.last = to }

func (r *fixedWindow) copied() rule { c := *r; return &c }

// most: the interval lies in span/W + 2 aligned windows at most, and each admits L at most.
func (r *fixedWindow) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 2)
}

// settle: the charge counts while the window in which it was made is that of the count, and not over.
func (r *fixedWindow) settle(c charge, before, d, now int64) (counts bool, last int64, used bool) {
	start, end := window(micros(c.limit), r.last)
	if c.at < start || c.at >= end || now < start || now >= end || r.count == 0 {
		return false, 0, false
	}
	r.count = changed(r.count, d)
	return true, r.last, r.count > 0
}

// changed is a count after a difference: never below 0, nor above what is exact.
func changed(count, d int64) int64 { return max(0, min(count+d, 1<<53-1)) }

// anchoredWindow: the window opens at the first admitted check that finds none
// open, and lasts W. Each key thereby has windows of its own, and keys do not reset at
// one instant as aligned windows do.
type anchoredWindow struct{ start, count int64 }

// counted returns the cost that was admitted in the window that is open at t, 0 if none is.
func (r *anchoredWindow) counted(l algorithms.Limit, t int64) int64 {
	if t < r.start+micros(l) {
		return r.count
	}
	return 0
}

// allows compares with the whole limit: an anchored window has no share of the one before.
func (r *anchoredWindow) allows(l algorithms.Limit, cost, t int64) bool {
	return r.counted(l, t)+cost <= l.Requests
}

// A window that is over says nothing.
func (r *anchoredWindow) unused(l algorithms.Limit, t int64) bool { return r.counted(l, t) == 0 }

// admit opens a window at the check if none is open.
func (r *anchoredWindow) admit(l algorithms.Limit, cost, t int64) {
	if r.counted(l, t) == 0 {
		r.start, r.count = t, 0
	}
	r.count += cost
}

// backlog is 0: only a leaky bucket delays.
func (r *anchoredWindow) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: the window is as old as it was.
func (r *anchoredWindow) move(_ algorithms.Limit, from, to int64) { r.start -= from - to }

func (r *anchoredWindow) copied() rule { c := *r; return &c }

// most is the same as for aligned windows, since windows open at least W apart.
func (r *anchoredWindow) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 2)
}

// settle: the charge counts while the window that it opened or was made in is open.
func (r *anchoredWindow) settle(c charge, before, d, now int64) (counts bool, last int64, used bool) {
	if r.count == 0 || r.start != c.opened || now >= r.start+micros(c.limit) {
		return false, 0, false
	}
	r.count = changed(r.count, d)
	return true, before, r.count > 0
}

// windowLog: allow iff the cost admitted in (t-W, t] + c <= L. A check leaves the window
// exactly W after it was admitted, which is why the interval is open at its beginning.
type windowLog struct{ admitted []struct{ at, cost int64 } }

// counted returns the cost that was admitted in (t-W, t].
func (r *windowLog) counted(l algorithms.Limit, t int64) (sum int64) {
	for _, a := range r.admitted {
		if a.at > t-micros(l) {
			sum += a.cost
		}
	}
	return sum
}

// allows compares with the limit itself: no interval of the window's length holds more.
func (r *windowLog) allows(l algorithms.Limit, cost, t int64) bool {
	return r.counted(l, t)+cost <= l.Requests
}

// unused reports whether the window is empty; checks that have left it do not count.
func (r *windowLog) unused(l algorithms.Limit, t int64) bool { return r.counted(l, t) == 0 }

// admit forgets the cost that has left the window: if the window becomes longer later,
// that cost does not come back.
func (r *windowLog) admit(l algorithms.Limit, cost, t int64) {
	for len(r.admitted) > 0 && r.admitted[0].at <= t-micros(l) {
		r.admitted = r.admitted[1:]
	}
	r.admitted = append(r.admitted, struct{ at, cost int64 }{t, cost})
}

// backlog is 0: only a leaky bucket delays.
func (r *windowLog) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: all that counts was admitted at the new instant.
func (r *windowLog) move(l algorithms.Limit, from, to int64) {
	r.admitted = []struct{ at, cost int64 }{{to, r.counted(l, from)}}
}

func (r *windowLog) copied() rule { return &windowLog{slices.Clone(r.admitted)} }

// most: any W microseconds admit L at most, and a closed interval has one instant more.
func (r *windowLog) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 1)
}

// settle: the entry of the charge has the other cost, and none without a cost is kept.
func (r *windowLog) settle(c charge, before, d, now int64) (counts bool, last int64, used bool) {
	sum := int64(0)
	for _, a := range r.admitted {
		sum += a.cost
	}
	for i, a := range r.admitted {
		if a.at != c.at || a.cost != c.cost || a.at <= now-micros(c.limit) {
			continue
		}
		r.admitted[i].cost += min(d, 1<<53-1-sum)
		if r.admitted[i].cost == 0 {
			r.admitted = slices.Delete(r.admitted, i, i+1)
		}
		if len(r.admitted) == 0 {
			return true, 0, false
		}
		return true, r.admitted[len(r.admitted)-1].at, true
	}
	return false, 0, false
}

// windowCounter: with e = t mod W, allow iff prev*(W-e)/W + curr + c <= L. Where
// L*W reaches 2^53 us, time counts in whole milliseconds: that belongs to the definition,
// since the Lua step computes in doubles.
type windowCounter struct{ last, prev, curr int64 }

// counterTick returns the microseconds of a tick, by the exact product, which the step
// does not compute.
func counterTick(l algorithms.Limit) int64 {
	product := new(big.Int).Mul(big.NewInt(l.Requests), big.NewInt(micros(l)))
	if product.BitLen() <= 53 {
		return 1
	}
	return 1000
}

// at returns the two counts at t, and the share of its window that t has left.
func (r *windowCounter) at(l algorithms.Limit, t int64) (prev, curr int64, share *big.Rat) {
	tick := counterTick(l)
	w := micros(l) / tick
	now, _ := window(tick, t)
	last, _ := window(tick, r.last)
	now, last = now/tick, last/tick

	start, end := window(w, now)
	before := start - w
	switch {
	case last >= start && last < end:
		prev, curr = r.prev, r.curr
	case last >= before && last < start:
		prev = r.curr
	}
	return prev, curr, big.NewRat(end-now, w)
}

// A cost is admitted if it stays within the limit beside this window's count and the share of the window before that
// still overlaps the sliding one.
func (r *windowCounter) allows(l algorithms.Limit, cost, t int64) bool {
	prev, curr, share := r.at(l, t)
	sum := share.Mul(share, new(big.Rat).SetInt64(prev))
	sum.Add(sum, new(big.Rat).SetInt64(curr+cost))
	return sum.Cmp(new(big.Rat).SetInt64(l.Requests)) <= 0
}

// Two windows without a count say nothing.
func (r *windowCounter) unused(l algorithms.Limit, t int64) bool {
	prev, curr, _ := r.at(l, t)
	return prev == 0 && curr == 0
}

// The cost counts in the window of its instant, and the count of the window before is kept for its share.
func (r *windowCounter) admit(l algorithms.Limit, cost, t int64) {
	prev, curr, _ := r.at(l, t)
	r.last, r.prev, r.curr = t, prev, curr+cost
}

// A counter holds nothing up.
func (r *windowCounter) backlog(algorithms.Limit, int64) int64 { return 0 }

// move adds the share of the window before to this one's count, in whole units. As much is free as before, and units
// above the limit are not kept.
func (r *windowCounter) move(l algorithms.Limit, from, to int64) {
	prev, curr, share := r.at(l, from)
	sum := ceil(share.Mul(share, new(big.Rat).SetInt64(prev)))
	sum.Add(sum, whole(curr))
	if most := whole(max(curr, l.Requests)); sum.Cmp(most) > 0 {
		sum = most
	}
	r.last, r.prev, r.curr = to, 0, sum.Num().Int64()
}

func (r *windowCounter) copied() rule { c := *r; return &c }

// most: an aligned window admits L at most, and the interval touches that many.
func (r *windowCounter) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 2)
}

// settle: the charge counts in its window and in the next one.
func (r *windowCounter) settle(c charge, before, d, now int64) (counts bool, last int64, used bool) {
	w := micros(c.limit)
	start, end := window(w, r.last)
	switch {
	case c.at >= start && c.at < end && now < end+w:
		r.curr = changed(r.curr, d)
	case c.at >= start-w && c.at < start && now < end:
		r.prev = changed(r.prev, d)
	default:
		return false, 0, false
	}

	// A window without a count says nothing: the one before it is then the last one that does.
	if r.curr == 0 && r.prev > 0 {
		r.last, r.curr, r.prev = start-1, r.prev, 0
	}
	return true, r.last, r.curr > 0
}
