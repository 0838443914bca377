package suggest

import (
	"cmp"
	"math"
	"slices"
)

// client is a key with its requests in the order of time.
type client struct {
	name  string
	at    []int64
	costs []int64
	apart bool // far above all others
}

// sort puts the requests of a client in the order of time. Most logs are in order.
func (c *client) sort() {
	if slices.IsSorted(c.at) {
		return
	}
	order := make([]request, len(c.at))
	for i := range order {
		order[i] = request{at: c.at[i], cost: c.costs[i]}
	}
	slices.SortStableFunc(order, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	for i, q := range order {
		c.at[i], c.costs[i] = q.at, q.cost
	}
}

// most is the largest cost of the client within any window, in (t-W, t].
func (c *client) most(window int64) (most int64) {
	var sum int64
	first := 0
	for i, t := range c.at {
		for c.at[first] <= t-window {
			sum -= c.costs[first]
			first++
		}
		sum += c.costs[i]
		most = max(most, sum)
	}
	return most
}

// bucket is a token bucket as its debt, in units of 1/window of a request: what is exact needs no fractions.
type bucket struct {
	limit, window int64
	debt          int64
	last          int64
}

// drain lets the time until an instant pass.
func (b *bucket) drain(at int64) {
	passed := at - b.last
	b.last = at
	if passed > b.debt/b.limit { // so the product below is at most the debt
		b.debt = 0
		return
	}
	b.debt -= passed * b.limit
}

// after is the debt after a cost, the largest number if it does not fit.
func (b *bucket) after(cost int64) int64 {
	if cost > (math.MaxInt64-b.debt)/b.window {
		return math.MaxInt64
	}
	return b.debt + cost*b.window
}

// burst is the smallest burst with which a token bucket of the limit denies the client nothing.
func (c *client) burst(limit, window int64) int64 {
	b := bucket{limit: limit, window: window, last: c.at[0]}
	var deepest int64
	for i, at := range c.at {
		b.drain(at)
		b.debt = b.after(c.costs[i])
		deepest = max(deepest, b.debt)
	}
	return 1 + (deepest-1)/window
}

// denied counts the requests of the client that a token bucket denies. A denial leaves no trace.
func (c *client) denied(limit, burst, window int64) (n int64) {
	b := bucket{limit: limit, window: window, last: c.at[0]}
	capacity := int64(math.MaxInt64 - 1)
	if burst < capacity/window {
		capacity = burst * window
	}
	for i, at := range c.at {
		b.drain(at)
		if debt := b.after(c.costs[i]); debt <= capacity {
			b.debt = debt
			continue
		}
		n++
	}
	return n
}
