package limitertest

import (
	"math/big"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// owed is the debt of a bucket in tokens, as of the last check that counted. It is the
// state of every rule of this file, as in the algorithms.
type owed struct {
	last   int64
	tokens *big.Rat // nil: none
	unit   *big.Int // debt is kept in fractions of 1/unit
	over   bool     // a surcharge has lifted it above the capacity
}

// under returns the debt as another limit sees it: rounded up to a whole token
// if the unit changes, capped at the capacity. Rounding up never mints tokens, and the cap
// keeps a lower limit from denying for longer than it takes to refill.
func (o owed) under(l algorithms.Limit) *big.Rat {
	if o.tokens == nil {
		return new(big.Rat)
	}

	// A debt that was counted under another rate keeps its tokens, rounded up: a started token is owed in whole.
	debt := new(big.Rat).Set(o.tokens)
	if o.unit.Cmp(refill(l).Denom()) != 0 {
		debt = ceil(debt)
	}

	// A lowered burst forgives the debt above it, for no wait may be longer than the one of an empty bucket.
	most := whole(l.Capacity())
	if o.over {
		most = mostOwed(l)
		if o.unit.Cmp(refill(l).Denom()) != 0 {
			most = floor(most) // of whole tokens
		}
	}
	if debt.Cmp(most) > 0 {
		return most
	}
	return debt
}

// mostOwed is the most tokens that a surcharge leaves owing: 100 times the capacity, as far as debts are exact and drain within the
// longest wait.
func mostOwed(l algorithms.Limit) *big.Rat {
	drain, unit := new(big.Rat).SetInt(refill(l).Num()), new(big.Rat).SetInt(refill(l).Denom())
	most := whole(100 * l.Capacity())
	for _, units := range []*big.Rat{new(big.Rat).Sub(whole(1<<53), drain), new(big.Rat).Mul(whole(1<<50), drain)} {
		if tokens := units.Quo(units, unit); tokens.Cmp(most) < 0 {
			most = tokens
		}
	}
	return most
}

func (o *owed) tokensOwed() *owed { return o }

// settle adds d tokens, or takes back what has not drained since.
func (o *owed) settle(c charge, before, d, now int64) (counts bool, last int64, used bool) {
	l := c.limit
	drained := new(big.Rat).Mul(o.since(now), refill(l))
	debt := floorAtZero(drained.Sub(o.under(l), drained))
	if d > 0 {
		debt.Add(debt, whole(d))
		if most := mostOwed(l); debt.Cmp(most) > 0 {
			debt = most
		}
	} else {
		refund := whole(min(-d, l.Capacity()))
		refund = floorAtZero(refund.Sub(refund, new(big.Rat).Mul(whole(max(0, now-c.at)), refill(l))))
		if refund.Sign() == 0 {
			return true, before, o.tokens != nil
		}
		debt = floorAtZero(debt.Sub(debt, refund))
	}
	o.set(l, debt, now)
	o.over = debt.Cmp(whole(l.Capacity())) > 0
	return true, now, o.tokens != nil
}

// since returns the time from the last check that counted to t, 0 without one.
func (o owed) since(t int64) *big.Rat {
	if o.tokens == nil {
		return new(big.Rat)
	}
	return whole(t - o.last)
}

// set records the debt after a check that counts, and the unit in which it is kept. No debt is kept as none.
func (o *owed) set(l algorithms.Limit, tokens *big.Rat, t int64) {
	o.last, o.tokens, o.unit, o.over = t, tokens, refill(l).Denom(), false
	if tokens.Sign() == 0 {
		o.tokens = nil
	}
}

// move keeps the debt in its unit, as of another instant.
func (o *owed) move(_ algorithms.Limit, _, to int64) { o.last = to }

// most is the same for every bucket: a full burst at the first instant, and what drains until the last.
func (o owed) most(l algorithms.Limit, span int64) int64 {
	most := new(big.Rat).Mul(refill(l), whole(span))
	most.Add(most, whole(l.Capacity()))
	return new(big.Int).Quo(most.Num(), most.Denom()).Int64()
}

// refill is L/W in tokens per microsecond, interval its inverse, T.
func refill(l algorithms.Limit) *big.Rat { return big.NewRat(l.Requests, micros(l)) }

// A limit of 0 has no interval: its rules say themselves that nothing conforms.
func interval(l algorithms.Limit) *big.Rat {
	if l.Requests == 0 {
		return new(big.Rat)
	}
	return big.NewRat(micros(l), l.Requests)
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// ceil returns the least whole number that is not below x.
func ceil(x *big.Rat) *big.Rat {
	q, m := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return new(big.Rat).SetInt(q)
}

// floor returns the largest whole number that is not above x.
func floor(x *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom())) // Euclidean
}

// floorAtZero returns x, or 0 if it is negative: a bucket that has drained holds no credit.
func floorAtZero(x *big.Rat) *big.Rat {
	if x.Sign() < 0 {
		return new(big.Rat)
	}
	return x
}

// tokens: the bucket starts full with B tokens and refills L/W continuously up
// to B; allow iff tokens >= c.
type tokens struct{ owed }

func (r *tokens) level(l algorithms.Limit, t int64) *big.Rat {
	full := whole(l.Capacity())
	level := new(big.Rat).Sub(full, r.under(l))
	level.Add(level, new(big.Rat).Mul(r.since(t), refill(l)))

	if level.Cmp(full) > 0 {
		return full
	}
	return level
}

// A cost is admitted if the bucket holds as many tokens.
func (r *tokens) allows(l algorithms.Limit, cost, t int64) bool {
	return r.level(l, t).Cmp(whole(cost)) >= 0
}

// A full bucket is as good as a new one.
func (r *tokens) unused(l algorithms.Limit, t int64) bool {
	return r.level(l, t).Cmp(whole(l.Capacity())) == 0
}

// The bucket then holds as many tokens less.
func (r *tokens) admit(l algorithms.Limit, cost, t int64) {
	left := new(big.Rat).Sub(r.level(l, t), whole(cost))
	r.set(l, left.Sub(whole(l.Capacity()), left), t)
}

func (r *tokens) copied() rule { c := *r; return &c }

// A token bucket holds nothing up.
func (r *tokens) backlog(algorithms.Limit, int64) int64 { return 0 }

// cellRate is GCRA: new = max(t, TAT) + c*T; allow iff new - t <= B*T; then TAT = new.
type cellRate struct{ owed }

// tat returns the theoretical arrival time as this limit sees it.
func (r *cellRate) tat(l algorithms.Limit) *big.Rat {
	tat := new(big.Rat).Mul(r.under(l), interval(l))
	return tat.Add(tat, whole(r.last))
}

func (r *cellRate) ahead(l algorithms.Limit, cost, t int64) *big.Rat {
	ahead := new(big.Rat)
	if r.tokens != nil {
		ahead = floorAtZero(ahead.Sub(r.tat(l), whole(t)))
	}
	return ahead.Add(ahead, new(big.Rat).Mul(whole(cost), interval(l)))
}

// A cell conforms if its theoretical arrival time is at most the burst's time ahead. Under a limit of 0 there is no
// interval between cells, and none conforms.
func (r *cellRate) allows(l algorithms.Limit, cost, t int64) bool {
	if l.Requests == 0 {
		return false
	}

	tolerance := new(big.Rat).Mul(whole(l.Capacity()), interval(l))
	return r.ahead(l, cost, t).Cmp(tolerance) <= 0
}

// A theoretical arrival time that has passed says nothing.
func (r *cellRate) unused(l algorithms.Limit, t int64) bool {
	return r.tokens == nil || l.Requests == 0 || r.tat(l).Cmp(whole(t)) <= 0
}

// The theoretical arrival time moves on by the interval of each unit.
func (r *cellRate) admit(l algorithms.Limit, cost, t int64) {
	r.set(l, new(big.Rat).Quo(r.ahead(l, cost, t), interval(l)), t)
}

func (r *cellRate) copied() rule { c := *r; return &c }

// GCRA holds nothing up.
func (r *cellRate) backlog(algorithms.Limit, int64) int64 { return 0 }

// queue: a backlog that drains at L/W; allow iff backlog + c <= B; the turn of an
// admitted check comes after backlog*T.
type queue struct{ owed }

// level returns the backlog at t, in units. It drains to 0 and no further.
func (r *queue) level(l algorithms.Limit, t int64) *big.Rat {
	drained := new(big.Rat).Mul(r.since(t), refill(l))
	return floorAtZero(drained.Sub(r.under(l), drained))
}

// A cost is admitted if it fits into the queue behind the checks that have not leaked.
func (r *queue) allows(l algorithms.Limit, cost, t int64) bool {
	level := r.level(l, t)
	return level.Add(level, whole(cost)).Cmp(whole(l.Capacity())) <= 0
}

// An empty queue is as good as a new one.
func (r *queue) unused(l algorithms.Limit, t int64) bool { return r.level(l, t).Sign() == 0 }

// The cost stands at the end of the queue.
func (r *queue) admit(l algorithms.Limit, cost, t int64) {
	level := r.level(l, t)
	r.set(l, level.Add(level, whole(cost)), t)
}

func (r *queue) copied() rule { c := *r; return &c }

// What stands in front of a check leaks first, unit by unit at the rate of the limit.
func (r *queue) backlog(l algorithms.Limit, t int64) int64 {
	level := r.level(l, t)
	return ceil(level.Mul(level, interval(l))).Num().Int64()
}
