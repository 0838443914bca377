package algorithms

// Shape is how a limiter forgets what it has admitted.
type Shape int

const (
	UnknownShape   Shape = iota // a foreign limiter, or an algorithm that has no Traits
	AlignedWindow               // all at once, when a window of the clock ends
	AnchoredWindow              // all at once, when a window that the key opened ends
	SlidingLog                  // charge by charge, one window after each
	SlidingCounter              // evenly, in the course of the next window
	Bucket                      // continuously, at the rate of the limit
)

// BurstRule is what an algorithm makes of Limit.Burst.
type BurstRule int

const (
	BurstRefused  BurstRule = iota // Burst must be 0
	BurstOptional                  // Burst 0 means Requests
	BurstRequired                  // Burst must be at least 1
)

// Traits are what other packages need to know of an algorithm besides its step, so
// that no list of algorithms by name is needed for it.
type Traits struct {
	Shape Shape
	Burst BurstRule
	// Delays reports that an admitted charge has to wait for its turn:
	// Decision.Delay.
	Delays bool
}

// Described is an algorithm that tells its traits, which are the same for every
// limit. An algorithm of your own may implement it; differences that it makes are
// then put down to a cause.
type Described interface {
	Algorithm
	Traits() Traits
}

// TraitsOf returns the algorithm's traits, or the zero Traits, with UnknownShape, for
// nil and for an algorithm that does not tell them.
func TraitsOf(a Algorithm) Traits {
	described, ok := a.(Described)
	if !ok {
		return Traits{}
	}
	return described.Traits()
}
