package algorithms

// LeakyBucket is a shaper: a queue of B units that drains at L/W. It decides as a
// token bucket with the same numbers, and an admitted check gets a Delay of
// backlog*T, T = W/L, before its turn: what the queue holds in front of it.
// Unlike the other buckets it must be given a burst, which sets the longest delay,
// (B-1)*T.
//
// State: see bucket; the backlog is D/w units.
type LeakyBucket struct{}

// Name returns "leaky_bucket".
func (LeakyBucket) Name() string { return "leaky_bucket" }

// traits implements described.
func (LeakyBucket) traits() Traits { return Traits{Shape: Bucket, Burst: BurstRequired, Delays: true} }

// Validate implements Algorithm. It refuses the limits that TokenBucket refuses, and one
// without a burst.
func (a LeakyBucket) Validate(l Limit) error {
	_, err := a.bucket(&l)
	return err
}

// bucket returns the limit as a bucket. A burst of 0 does not mean Requests here: the
// longest delay follows from the burst, and an operator must have chosen that.
func (a LeakyBucket) bucket(l *Limit) (bucket, error) {
	if l.Burst == 0 && l.Requests > 0 {
		example := min(10, max(1, l.Requests))
		return bucket{}, refuse(a.Name(), l, "burst is missing: a check waits up to (burst-1) x window/requests for its turn, "+
			"so say how long that may be, such as burst=%d", example)
	}
	return validBucket(a.Name(), l)
}

// Terms returns the burst in tokens, the debt units of a token, those drained per
// microsecond, and the window in microseconds.
func (a LeakyBucket) terms(l Limit) (Terms, error) {
	b, err := a.bucket(&l)
	return b.terms(&l), err
}

// Step implements Algorithm. The Delay of a peek is the length of the queue, which a
// check would have to wait for now.
func (a LeakyBucket) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	b, err := a.bucket(l)
	if err == nil {
		err = validCheck(cost, at)
	}
	if err != nil {
		return s, Decision{}, err
	}

	// The delay is the backlog in front of the check, so it is read before the check is
	// added.
	s = s.movedDebt(at, l)
	now := s.now(at)
	backlog := b.debt(s, now)

	var d Decision
	b.step(&s, &d, cost, at)
	if d.Allowed {
		d.Delay = b.drained(backlog, now, at)
	}
	return s, d, nil
}
