package limitertest

import (
	"hash/crc32"
	"math/big"

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

// windowFrom returns the window of t among the windows that begin at an instant.
func windowFrom(origin, w, t int64) (start, end int64) {
	start, end = window(w, t-origin)
	return start + origin, end + origin
}

// phaseOf returns where a key's windows begin with PhaseHash: crc32(key) mod W, in the largest of seconds, milliseconds, and
// microseconds of which W is a whole number.
func phaseOf(key string, l algorithms.Limit) int64 {
	hash := new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(key))))
	for _, unit := range []int64{1e6, 1e3, 1} {
		if micros(l)%unit == 0 {
			return new(big.Int).Mod(hash, big.NewInt(micros(l)/unit)).Int64() * unit
		}
	}
	return 0
}

// fixedWindow: allow iff the admitted cost in the window + c <= L. With PhaseFirst windows follow each other from the first
// charge that finds none within two.
type fixedWindow struct {
	key         string
	last, count int64
	start       int64 // of the window of last, with PhaseFirst
}

// at returns the window of t and the cost that was counted in it, and whether the key has one within two windows.
func (r *fixedWindow) at(l algorithms.Limit, t int64) (start, end, count int64, known bool) {
	// The origin is an instant at which a window begins; all others are whole windows away from it.
	origin := int64(0)
	switch l.Phase {
	case algorithms.PhaseHash:
		origin = phaseOf(r.key, l)
	case algorithms.PhaseFirst:
		origin = r.start
	}

	start, end = windowFrom(origin, micros(l), t)
	if l.Calendar != algorithms.NoCalendar {
		start, end = calendarWindow(l.Calendar, t)
	}
	// A key of PhaseFirst keeps its phase for a window after the last one that counted. Then its next request opens a new one.
	known = r.count > 0 && r.last >= start-micros(l)
	if l.Phase == algorithms.PhaseFirst && !known {
		return t, t + micros(l), 0, false
	}
	if known && r.last >= start && r.last < end {
		count = r.count
	}
	return start, end, count, known
}

// A cost is admitted if the count of the window stays within the limit.
func (r *fixedWindow) allows(l algorithms.Limit, cost, t int64) bool {
	_, _, count, _ := r.at(l, t)
	return count+cost <= l.Requests
}

// unused: a key of PhaseFirst keeps its phase for one window more.
func (r *fixedWindow) unused(l algorithms.Limit, t int64) bool {
	_, _, count, known := r.at(l, t)
	return count == 0 && (l.Phase != algorithms.PhaseFirst || !known)
}

// The cost counts in the window of its instant.
func (r *fixedWindow) admit(l algorithms.Limit, cost, t int64) {
	start, _, count, _ := r.at(l, t)
	r.last, r.start, r.count = t, start, count+cost
}

// A window holds nothing up.
func (r *fixedWindow) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: the count belongs to the window of the new instant. A window of the key's own is as old as it was.
func (r *fixedWindow) move(_ algorithms.Limit, from, to int64) {
	r.start -= from - to
	r.last = to
}

// A denial that counts is counted as an admission.
func (r *fixedWindow) deny(l algorithms.Limit, cost, t int64) { r.admit(l, cost, t) }

// most: the interval lies in span/W + 2 aligned windows at most, and each admits L at most.
func (r *fixedWindow) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/shortest(l) + 2)
}

// anchoredWindow: the window opens at the first admitted charge that finds none
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

// admit opens a window at the charge if none is open.
func (r *anchoredWindow) admit(l algorithms.Limit, cost, t int64) {
	if r.counted(l, t) == 0 {
		r.start, r.count = t, 0
	}
	r.count += cost
}

// A denial that counts opens a window, too.
func (r *anchoredWindow) deny(l algorithms.Limit, cost, t int64) { r.admit(l, cost, t) }

// backlog is 0: only a leaky bucket delays.
func (r *anchoredWindow) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: the window is as old as it was.
func (r *anchoredWindow) move(_ algorithms.Limit, from, to int64) { r.start -= from - to }

// most is the same as for aligned windows, since windows open at least W apart.
func (r *anchoredWindow) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 2)
}

// windowLog: allow iff the cost admitted in (t-W, t] + c <= L. A charge leaves the window
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

// unused reports whether the window is empty; charges that have left it do not count.
func (r *windowLog) unused(l algorithms.Limit, t int64) bool { return r.counted(l, t) == 0 }

// admit forgets the cost that has left the window: if the window becomes longer later,
// that cost does not come back.
func (r *windowLog) admit(l algorithms.Limit, cost, t int64) {
	for len(r.admitted) > 0 && r.admitted[0].at <= t-micros(l) {
		r.admitted = r.admitted[1:]
	}
	r.admitted = append(r.admitted, struct{ at, cost int64 }{t, cost})
}

// deny counts no more of the cost than the limit. Charges before the newest that fill the limit are forgotten: they leave
// the window before those, which deny everything until then.
func (r *windowLog) deny(l algorithms.Limit, cost, t int64) {
	r.admit(l, min(cost, l.Requests), t)
	for r.counted(l, t)-r.admitted[0].cost >= l.Requests {
		r.admitted = r.admitted[1:]
	}
}

// backlog is 0: only a leaky bucket delays.
func (r *windowLog) backlog(algorithms.Limit, int64) int64 { return 0 }

// move: all that counts was admitted at the new instant.
func (r *windowLog) move(l algorithms.Limit, from, to int64) {
	r.admitted = []struct{ at, cost int64 }{{to, r.counted(l, from)}}
}

// most: any W microseconds admit L at most, and a closed interval has one instant more.
func (r *windowLog) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 1)
}

// windowCounter: with e = t mod W, allow iff prev*(W-e)/W + curr + c <= L. Where
// L*W reaches 2^53 us, time counts in whole milliseconds: that belongs to the definition,
// since the Lua step computes in doubles.
type windowCounter struct {
	key              string
	last, prev, curr int64
	start            int64 // of the window of last, with PhaseFirst
}

// counterTick returns the microseconds of a tick, by the exact product, which the step
// does not compute.
func counterTick(l algorithms.Limit) int64 {
	product := new(big.Int).Mul(big.NewInt(l.Requests), big.NewInt(micros(l)))
	if product.BitLen() <= 53 {
		return 1
	}
	return 1000
}

// at returns the two counts at t, the beginning of its window, and the share of that which t has left.
func (r *windowCounter) at(l algorithms.Limit, t int64) (prev, curr, begin int64, share *big.Rat) {
	tick := counterTick(l)
	w := micros(l) / tick
	now, _ := window(tick, t)
	last, _ := window(tick, r.last)
	origin, _ := window(tick, r.origin(l))
	now, last, origin = now/tick, last/tick, origin/tick

	start, end := windowFrom(origin, w, now)
	before := start - w
	switch {
	case last >= start && last < end:
		prev, curr = r.prev, r.curr
	case last >= before && last < start:
		prev = r.curr
	}

	// With PhaseFirst a charge that finds no window within two begins one.
	if l.Phase == algorithms.PhaseFirst && prev == 0 && curr == 0 {
		return 0, 0, now * tick, big.NewRat(1, 1)
	}
	return prev, curr, start * tick, big.NewRat(end-now, w)
}

// origin returns an instant at which a window of the key begins.
func (r *windowCounter) origin(l algorithms.Limit) int64 {
	switch l.Phase {
	case algorithms.PhaseHash:
		return phaseOf(r.key, l)
	case algorithms.PhaseFirst:
		return r.start
	}
	return 0
}

// A cost is admitted if it stays within the limit beside this window's count and the share of the window before that
// still overlaps the sliding one.
func (r *windowCounter) allows(l algorithms.Limit, cost, t int64) bool {
	prev, curr, _, share := r.at(l, t)
	sum := share.Mul(share, new(big.Rat).SetInt64(prev))
	sum.Add(sum, new(big.Rat).SetInt64(curr+cost))
	return sum.Cmp(new(big.Rat).SetInt64(l.Requests)) <= 0
}

// Two windows without a count say nothing.
func (r *windowCounter) unused(l algorithms.Limit, t int64) bool {
	prev, curr, _, _ := r.at(l, t)
	return prev == 0 && curr == 0
}

// The cost counts in the window of its instant, and the count of the window before is kept for its share.
func (r *windowCounter) admit(l algorithms.Limit, cost, t int64) {
	prev, curr, start, _ := r.at(l, t)
	r.last, r.prev, r.curr, r.start = t, prev, curr+cost, start
}

// A denial that counts is counted as an admission.
func (r *windowCounter) deny(l algorithms.Limit, cost, t int64) { r.admit(l, cost, t) }

// A counter holds nothing up.
func (r *windowCounter) backlog(algorithms.Limit, int64) int64 { return 0 }

// move adds the share of the window before to this one's count, in whole units. Units
// above the limit are not kept. Windows of the key's own are as old as they were.
func (r *windowCounter) move(l algorithms.Limit, from, to int64) {
	// A key's own windows move with the clock.
	prev, curr, start, share := r.at(l, from)
	if l.Phase == algorithms.PhaseFirst {
		tick := counterTick(l)
		judged, _ := window(tick, from)
		moved, _ := window(tick, to)
		r.last, r.prev, r.curr, r.start = to, prev, curr, start+moved-judged
		return
	}

	// Those of the epoch stay, so the part of the window before that still counts becomes part of this one. As much
	// is free as before, and never more than the limit is taken.
	sum := ceil(share.Mul(share, new(big.Rat).SetInt64(prev)))
	sum.Add(sum, whole(curr))
	if most := whole(max(curr, l.Requests)); sum.Cmp(most) > 0 {
		sum = most
	}
	r.last, r.prev, r.curr = to, 0, sum.Num().Int64()
}

// most: an aligned window admits L at most, and the interval touches that many.
func (r *windowCounter) most(l algorithms.Limit, span int64) int64 {
	return l.Requests * (span/micros(l) + 2)
}
