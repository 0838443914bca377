package algorithms

import (
	"math/bits"
	"time"
)

// bucket is a limit in the units of the debt D, the one number that every algorithm of
// the shape Bucket keeps; its type says what D means there. A token is w units, and l
// units drain per microsecond, where l/w is Requests/Window in lowest terms. So
//
//	D' = max(0, D - l*(t - t0)); allow iff D' + c*w <= B*w; then D = D' + c*w.
//
// An instant or a number of tokens would be no whole number; the debt
// in these units always is. Lowest terms keep it small: a million a day needs w =
// 86,400 instead of 8.64e10, so that nearly every limit in use fits below 2^53.
//
// State: Last is t0, Used is D, Aux is w, or -w where a surcharge has lifted D above B*w.
type bucket struct {
	drain    int64 // l, debt units per microsecond
	token    int64 // w, debt units to the token
	burst    int64 // B, tokens
	capacity int64 // B*w
}

// terms returns the bucket of a limit as its Lua twin takes it.
func (b *bucket) terms(l *Limit) Terms { return Terms{b.burst, b.token, b.drain, l.micros()} }

// newBucket puts Requests/Window into lowest terms. The capacity may have overflowed:
// validBucket checks.
func newBucket(l *Limit) bucket {
	// A bucket that holds nothing has no debt. Its other terms only have to be numbers.
	if l.Requests == 0 {
		return bucket{drain: 1, token: 1}
	}

	// Most limits divide their window, so most steps are spared the gcd.
	b := bucket{drain: 1, token: l.micros() / l.Requests, burst: l.Capacity()}
	if b.token*l.Requests != l.micros() {
		g := gcd(l.Requests, l.micros())
		b.drain = l.Requests / g
		b.token = l.micros() / g
	}

	b.capacity = b.burst * b.token
	return b
}

// validBucket returns the bucket of a limit for which every intermediate value is exact
// in Lua, too. Every step calls it, so it multiplies where it could divide: divisions
// are the dearest part of a step.
func validBucket(algorithm string, l *Limit) (bucket, error) {
	if err := l.validate(algorithm); err != nil {
		return bucket{}, err
	}

	// B*w + l <= 2^53 bounds each value of a step: a debt is at most B*w, and Lua computes
	// the drained amount only where that is less than the debt and l.
	b := newBucket(l)
	if hi, lo := bits.Mul64(uint64(b.burst), uint64(b.token)); hi != 0 || lo > uint64(maxExact-b.drain) {
		return b, b.refuse(algorithm, l)
	}

	// The time in which a full bucket drains is a wait, which must fit, too.
	if b.drain < maxExact/maxTicks && b.capacity > maxTicks*b.drain {
		most := max(1, maxTicks/b.token*b.drain)
		return b, refuse(algorithm, l, "a full burst would drain for over 35 years: lower burst to at most %d", most)
	}
	return b, nil
}

// refuse says which number of a limit that is not exact to change: the burst, if it was
// given and a smaller one would do, else the ratio of requests and window.
func (b *bucket) refuse(algorithm string, l *Limit) error {
	most := (maxExact - b.drain) / b.token
	if l.Burst == 0 || most == 0 {
		return refuse(algorithm, l, "too fine to be exact: take requests and a window that share larger factors (%s does), "+
			"or a shorter window", roundLimit(*l))
	}

	return refuse(algorithm, l, "too large to be exact: lower burst to at most %d", most)
}

// roundLimit rounds requests to one significant digit: a limit near l that is
// likely to fit.
func roundLimit(l Limit) Limit {
	digit := int64(1)
	for l.Requests/digit >= 10 {
		digit *= 10
	}

	l.Requests = (l.Requests + digit/2) / digit * digit
	return l
}

// debt returns what the state owes at now, under this bucket's limit.
func (b *bucket) debt(s State, now int64) int64 {
	if s.Used == 0 {
		return 0
	}

	debt, most := s.Used, b.capacity
	if s.Aux != b.token {
		debt, most = b.converted(s)
	}
	debt = min(debt, most)

	hi, drained := bits.Mul64(uint64(now-s.Last), uint64(b.drain))
	if hi != 0 || drained >= uint64(debt) {
		return 0
	}
	return debt - int64(drained)
}

// converted returns the debt of a state that has another unit, or that a surcharge has lifted above the capacity, and the most that
// it may be.
func (b *bucket) converted(s State) (debt, most int64) {
	unit, tokens, most := s.Aux, b.burst, b.capacity
	if unit < 0 {
		unit, most = -unit, b.most()
		tokens = most / b.token
	}
	if unit == b.token {
		return s.Used, most
	}

	// A debt of another unit is converted by whole tokens, rounded up: rounded down,
	// changing a limit to and fro would mint tokens. It is capped in tokens before it is
	// multiplied, since the product could overflow.
	return min(ceilDiv(s.Used, unit), tokens) * b.token, most
}

// units returns the units spent, in debt units.
func (b *bucket) units(p *Spending) int64 {
	hi, units := bits.Mul64(uint64(p.Units), uint64(b.token))
	if hi != 0 || units > mostSpent {
		return mostSpent
	}
	return int64(units)
}

// own returns the debt of the checks alone, in this bucket's units.
func (b *bucket) own(p *Spending) int64 {
	return b.debt(State{Last: p.Last, Used: p.Debt, Aux: max(1, p.Token)}, p.Last)
}

// debit adds checks to a debt. The debt at the last of them is
//
//	max(D + U - l*(t1 - t0), Q)
//
// with D the debt at t0, the later one of the first check and the state's instant, U the units charged, and Q the debt
// that they leave alone: exact where no other check lies between t0 and t1, and never too little.
func (b *bucket) debit(s State, window int64, p *Spending) State {
	spent, debt, at := b.units(p), int64(0), p.First
	if s.Used > 0 && s.Aux > 0 {
		at = max(at, s.Last)
		debt = b.debt(s, at)
	}

	debt += spent
	if at < p.Last {
		debt = max(b.drainedBy(debt, p.Last-at), b.own(p))
		at = p.Last
	}
	return b.overdrawn(debt, at, max(s.Last, p.Last+window))
}

// drainedBy returns a debt after a time.
func (b *bucket) drainedBy(debt, elapsed int64) int64 {
	if elapsed >= ceilDiv(debt, b.drain) {
		return 0
	}
	return debt - elapsed*b.drain
}

// overdrawn returns the state of a debt that may be above the capacity. Such a state is a full debt at the instant at
// which so much will be left, up to the latest one: nothing locks a key out for longer than a window. A bucket that drains more
// in a microsecond than it holds has a debt of 1 left: of 0, the state would be a key never used, and the excess forgiven.
func (b *bucket) overdrawn(debt, at, latest int64) State {
	if debt > b.capacity {
		ahead := ceilDiv(debt-b.capacity, b.drain)
		debt = min(b.capacity, max(1, debt-ahead*b.drain))
		at += ahead
	}
	return State{Last: min(at, latest), Used: debt, Aux: b.token}
}

// bucketStep is the whole step of a bucket without a delay, its checks included.
func bucketStep(algorithm string, s State, l *Limit, cost, at int64) (State, Decision, error) {
	b, err := validBucket(algorithm, l)
	if err == nil {
		err = validCheck(cost, at)
	}
	if err != nil {
		return s, Decision{}, err
	}

	s = s.movedDebt(at, l)
	var d Decision
	b.step(&s, &d, cost, at)
	return s, d, nil
}

// step judges a check that has been checked, as all buckets do. It writes the decision and the state in place, because both
// are dear to copy.
func (b *bucket) step(s *State, d *Decision, cost, at int64) {
	now := s.now(at)
	debt := b.debt(*s, now)

	// A cost above the burst is compared first: its product could overflow.
	*d = Decision{Capacity: b.burst, Allowed: cost == 0 || cost <= b.burst && cost*b.token <= b.capacity-debt}
	switch {
	case d.Allowed && cost > 0:
		debt += cost * b.token
		*s = State{Last: now, Used: debt, Aux: b.token}
	case d.Allowed: // a peek leaves no trace
	case cost > b.burst:
		d.RetryAfter = Never
	default:
		// The wait until the debt has drained to the room that the cost needs.
		d.RetryAfter = wait(ceilDiv(debt-(b.burst-cost)*b.token, b.drain) + now - at)
	}

	d.Remaining = max(0, b.capacity-debt) / b.token
	d.ResetAfter = b.drained(debt, now, at)
}

// drained returns the wait from at until a debt of now is gone.
func (b *bucket) drained(debt, now, at int64) time.Duration {
	if debt == 0 {
		return 0
	}
	return wait(ceilDiv(debt, b.drain) + now - at)
}

// overdraft is how many times its capacity a bucket may owe after a surcharge.
const overdraft = 100

// most returns the largest debt: of a surcharge, as far as debts and waits are exact.
func (b *bucket) most() int64 {
	most := min(overdraft*b.capacity, maxExact-b.drain)
	if b.drain < maxExact/maxTicks {
		most = min(most, maxTicks*b.drain)
	}
	return most
}

// settle changes a debt by d tokens, which were charged at an instant. What has drained of a refund since is not given back again.
func (b *bucket) settle(s *State, charged, d, now int64) {
	debt := b.debt(*s, now)
	if d > 0 {
		hi, more := bits.Mul64(uint64(d), uint64(b.token))
		if hi != 0 || more > uint64(b.most()-debt) {
			more = uint64(b.most() - debt)
		}
		debt += int64(more)
	} else {
		// A limit that was lowered has forgiven what was above its capacity.
		refund := b.drainedBy(min(-d, b.burst)*b.token, max(0, now-charged))
		if refund == 0 {
			return
		}
		debt = max(0, debt-refund)
	}

	switch {
	case debt == 0:
		*s = State{}
	case debt > b.capacity:
		*s = State{Last: now, Used: debt, Aux: -b.token}
	default:
		*s = State{Last: now, Used: debt, Aux: b.token}
	}
}

// LongestDelay returns how long an algorithm that delays holds an admitted check of cost 1 at most under a valid limit,
// (burst-1) * window/requests; 0 for other algorithms.
func LongestDelay(a Algorithm, l Limit) time.Duration {
	if !TraitsOf(a).Delays || l.Requests == 0 {
		return 0
	}

	// What the check finds owing is a token less than the burst.
	b := newBucket(&l)
	return b.drained((b.burst-1)*b.token, 0, 0)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
