package algorithms

import (
	"math/bits"
	"time"
)

// The token bucket, the GCRA and the leaky bucket keep one number: the debt D, in
// units of which a token is w and of which l drain per microsecond, where l/w is
// Requests/Window in lowest terms. A token bucket holds B - D/w tokens; a GCRA's
// theoretical arrival time is t + D/l; a leaky bucket's backlog is D/w. So
//
//	D' = max(0, D - l*(t - t0)); allow iff D' + c*w <= B*w; then D = D' + c*w.
//
// State: Last is t0, Used is D, Aux is w.
type bucket struct {
	drain    int64 // l, debt units per microsecond
	token    int64 // w, debt units to the token
	burst    int64 // B, tokens
	capacity int64 // B*w
}

func (b bucket) terms() Terms { return Terms{b.burst, b.token, b.drain} }

func newBucket(l Limit) bucket {
	b := bucket{drain: 1, token: l.micros() / l.Requests, burst: l.Capacity()}
	if b.token*l.Requests != l.micros() { // most limits divide their window
		g := gcd(l.Requests, l.micros())
		b.drain, b.token = l.Requests/g, l.micros()/g
	}
	b.capacity = b.burst * b.token
	return b
}

// validBucket checks that B*w + l <= 2^53 and that a full bucket drains in
// finite time. It is part of every step, hence products instead of quotients.
func validBucket(algorithm string, l Limit) (bucket, error) {
	if err := l.validate(algorithm); err != nil {
		return bucket{}, err
	}
	b := newBucket(l)
	if hi, lo := bits.Mul64(uint64(b.burst), uint64(b.token)); hi != 0 || lo > uint64(maxExact-b.drain) {
		return b, b.refuse(algorithm, l)
	}
	if b.drain < maxExact/maxTicks && b.capacity > maxTicks*b.drain {
		return b, refuse(algorithm, l, "a full burst would drain for over 35 years: lower burst to at most %d", max(1, maxTicks/b.token*b.drain))
	}
	return b, nil
}

func (b bucket) refuse(algorithm string, l Limit) error {
	most := (maxExact - b.drain) / b.token
	if l.Burst == 0 || most == 0 {
		return refuse(algorithm, l, "too fine to be exact: take requests and a window that share larger factors (%s does), or a shorter window", roundLimit(l))
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
func (b bucket) debt(s State, now int64) int64 {
	if s.Used == 0 {
		return 0
	}
	debt := s.Used
	if s.Aux != b.token {
		debt = min(ceilDiv(debt, s.Aux), b.burst) * b.token
	}
	debt = min(debt, b.capacity)
	hi, drained := bits.Mul64(uint64(now-s.Last), uint64(b.drain))
	if hi != 0 || drained >= uint64(debt) {
		return 0
	}
	return debt - int64(drained)
}

// bucketStep is the step of the buckets without a delay.
func bucketStep(algorithm string, s State, l Limit, cost, at int64) (State, Decision, error) {
	b, err := validBucket(algorithm, l)
	if err == nil {
		err = checkCharge(cost, at)
	}
	if err != nil {
		return s, Decision{}, err
	}
	s, d := b.step(s, cost, at)
	return s, d, nil
}

// step judges a charge as all buckets do.
func (b bucket) step(s State, cost, at int64) (State, Decision) {
	now := s.now(at)
	debt := b.debt(s, now)
	d := Decision{Limit: b.burst, Allowed: cost == 0 || cost <= b.burst && cost*b.token <= b.capacity-debt}
	switch {
	case d.Allowed && cost > 0:
		debt += cost * b.token
		s = State{Last: now, Used: debt, Aux: b.token}
	case d.Allowed:
	case cost > b.burst:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(ceilDiv(debt-(b.burst-cost)*b.token, b.drain) + now - at)
	}
	d.Remaining = (b.capacity - debt) / b.token
	d.ResetAfter = b.drained(debt, now, at)
	return s, d
}

// drained returns the wait from at until a debt of now is gone.
func (b bucket) drained(debt, now, at int64) time.Duration {
	if debt == 0 {
		return 0
	}
	return wait(ceilDiv(debt, b.drain) + now - at)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
