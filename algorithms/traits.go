package algorithms

import "fmt"

// Shape is how a limiter forgets what it has admitted.
type Shape int

const (
	UnknownShape   Shape = iota // a custom limiter, or an algorithm that has no Traits
	AlignedWindow               // all at once, when a window ends that is aligned to the Unix epoch
	AnchoredWindow              // all at once, when a window that the key opened ends
	SlidingLog                  // each admitted cost by itself, one window after its check
	SlidingCounter              // evenly, in the course of the next window
	Bucket                      // continuously, at the rate of the limit
)

var shapeNames = [...]string{
	UnknownShape: "UnknownShape", AlignedWindow: "AlignedWindow", AnchoredWindow: "AnchoredWindow", SlidingLog: "SlidingLog",
	SlidingCounter: "SlidingCounter", Bucket: "Bucket",
}

// String returns the name of the constant, as "AlignedWindow", or "Shape(9)" for a number that has none.
func (s Shape) String() string {
	if s < 0 || int(s) >= len(shapeNames) || shapeNames[s] == "" {
		return fmt.Sprintf("Shape(%d)", int(s))
	}
	return shapeNames[s]
}

// Forgotten returns the instant in microseconds from which no state of a limit depends on whether a check at the given
// instant, or before it, was made, if nothing else is charged: the end of an aligned
// window, the end of the next one for the counter, one window later for a log and for an anchored window, and the time in which
// a full bucket drains. For a shape that is not known it is one window later.
func Forgotten(shape Shape, l Limit, at int64) int64 {
	window := max(1, l.micros())
	switch shape {
	case AlignedWindow:
		return (floorDiv(at, window) + 1) * window
	case SlidingCounter:
		return (floorDiv(at, window) + 2) * window
	case Bucket:
		if b := newBucket(&l); b.burst > 0 && b.capacity/b.burst == b.token {
			return at + ceilDiv(b.capacity, b.drain)
		}
	}
	return at + window
}

// BurstRule is what an algorithm makes of Limit.Burst.
type BurstRule int

const (
	BurstRefused  BurstRule = iota // Burst must be 0
	BurstOptional                  // Burst 0 means Requests
	BurstRequired                  // Burst must be at least 1
)

// Traits are the properties of an algorithm that other packages ask for, so that none of
// them needs a list of algorithms by name. The zero Traits are those of a limiter that
// is not known.
type Traits struct {
	// Shape is how the algorithm forgets; the likely cause of a difference follows
	// from it.
	Shape Shape
	// Burst is what the algorithm's Validate makes of a burst.
	Burst BurstRule
	// Delays reports that an admitted check has to wait for its turn:
	// Decision.Delay.
	Delays bool
}

// Described is an algorithm that tells its traits, which are the same for every limit.
// An algorithm of your own may implement it: the differences that it makes are then
// explained by a cause, and not counted as "other".
type Described interface {
	Algorithm
	// Traits returns the same value at every call.
	Traits() Traits
}

// TraitsOf returns the algorithm's traits, or the zero Traits, with UnknownShape, for
// nil and for an algorithm that does not tell them.
func TraitsOf(a Algorithm) Traits {
	switch a := a.(type) {
	case Described: // before the next, because it may have one of ours inside
		return a.Traits()
	case described:
		return a.traits()
	}
	return Traits{}
}

// described is an algorithm of this package.
type described interface{ traits() Traits }
