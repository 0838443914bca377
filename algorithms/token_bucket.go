package algorithms

// TokenBucket starts full with B tokens and refills L/W continuously up to B. A
// check takes its cost in tokens or is denied. Any interval of length x admits
// at most B + x*L/W.
//
// State: see bucket; the tokens are B - D/w.
type TokenBucket struct{}

// Name returns "token_bucket".
func (TokenBucket) Name() string { return "token_bucket" }

// traits implements described.
func (TokenBucket) traits() Traits { return Traits{Shape: Bucket, Burst: BurstOptional} }

// Validate implements Algorithm. It refuses a limit for which a full bucket of debt, in
// the units of type bucket, is 2^53 or more, or would drain for over 35 years.
func (a TokenBucket) Validate(l Limit) error {
	_, err := validBucket(a.Name(), &l)
	return err
}

// Terms returns the burst in tokens, the debt units of a token, those drained per
// microsecond, and the window in microseconds.
func (a TokenBucket) terms(l Limit) (Terms, error) {
	b, err := validBucket(a.Name(), &l)
	return b.terms(&l), err
}

// Step implements Algorithm. ResetAfter ends when the bucket is full again.
func (a TokenBucket) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	return bucketStep(a.Name(), s, l, cost, at)
}
