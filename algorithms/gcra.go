package algorithms

// GCRA is the generic cell rate algorithm of ITU-T I.371. With the emission
// interval T = W/L and the theoretical arrival time TAT, a check at t makes
// new = max(t, TAT) + c*T; it conforms iff new - t <= B*T, and then TAT = new.
// The decisions are those of a token bucket with the same numbers.
//
// State: see bucket; TAT is t0 + D/l, which as a whole number would not fit.
type GCRA struct{}

// Name returns "gcra".
func (GCRA) Name() string { return "gcra" }

// traits implements described.
func (GCRA) traits() Traits { return Traits{Shape: Bucket, Burst: BurstOptional} }

// Validate implements Algorithm. It refuses the limits that TokenBucket refuses.
func (a GCRA) Validate(l Limit) error {
	_, err := validBucket(a.Name(), &l)
	return err
}

// Terms returns the burst in tokens, the debt units of a token, those drained per
// microsecond, and the window in microseconds.
func (a GCRA) terms(l Limit) (Terms, error) {
	b, err := validBucket(a.Name(), &l)
	return b.terms(&l), err
}

// Step implements Algorithm. ResetAfter ends at the theoretical arrival time.
func (a GCRA) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	return bucketStep(a.Name(), s, l, cost, at)
}
