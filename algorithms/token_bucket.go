package algorithms

// TokenBucket starts full with B tokens and refills L/W continuously up to B. A
// charge takes its cost in tokens or is denied. Any interval of length x admits
// at most B + x*L/W.
//
// State: see bucket; the tokens are B - D/w.
type TokenBucket struct{}

func (TokenBucket) Name() string { return "token_bucket" }

// Traits implements Described.
func (TokenBucket) Traits() Traits { return Traits{Shape: Bucket, Burst: BurstOptional} }

func (a TokenBucket) Validate(l Limit) error {
	_, err := validBucket(a.Name(), l)
	return err
}

func (a TokenBucket) Terms(l Limit) (Terms, error) {
	b, err := validBucket(a.Name(), l)
	return b.terms(), err
}

func (a TokenBucket) Step(s State, l Limit, cost, at int64) (State, Decision, error) {
	return bucketStep(a.Name(), s, l, cost, at)
}
