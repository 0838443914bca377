package algorithms

// LeakyBucket is a shaper: a queue of B units that drains at L/W. It decides as a
// token bucket with the same numbers, and an admitted charge gets a Delay of
// backlog*T, T = W/L, before its turn: what the queue holds in front of it.
// Unlike the other buckets it must be given a burst, for that sets the longest
// delay, (B-1)*T.
//
// State: see bucket; the backlog is D/w units.
type LeakyBucket struct{}

func (LeakyBucket) Name() string { return "leaky_bucket" }

// Traits implements Described.
func (LeakyBucket) Traits() Traits { return Traits{Shape: Bucket, Burst: BurstRequired, Delays: true} }

func (a LeakyBucket) Validate(l Limit) error {
	_, err := a.bucket(l)
	return err
}

func (a LeakyBucket) bucket(l Limit) (bucket, error) {
	if l.Burst == 0 {
		return bucket{}, refuse(a.Name(), l, "burst is missing: a charge waits up to (burst-1) x window/requests for its turn, so say how long that may be, such as burst=%d", min(10, max(1, l.Requests)))
	}
	return validBucket(a.Name(), l)
}

func (a LeakyBucket) Terms(l Limit) (Terms, error) {
	b, err := a.bucket(l)
	return b.terms(), err
}

func (a LeakyBucket) Step(s State, l Limit, cost, at int64) (State, Decision, error) {
	b, err := a.bucket(l)
	if err == nil {
		err = checkCharge(cost, at)
	}
	if err != nil {
		return s, Decision{}, err
	}
	now := s.now(at)
	backlog := b.debt(s, now)
	s, d := b.step(s, cost, at)
	if d.Allowed {
		d.Delay = b.drained(backlog, now, at)
	}
	return s, d, nil
}
