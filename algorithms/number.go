package algorithms

// Number tells whether the two parts of a record have had the same charges. Each part has one: 16 bits of the epoch of
// the pair, and 37 bits that count the charges which the leading side has admitted, whether or not the part's own side
// has admitted them. The leading side is the one that is enforced, or that answers first.
//
// A comparison counts only if both numbers were equal before it. The zero Number belongs to a part that has none: of a
// policy without a candidate.
type Number int64

// countBits are the bits of the count. With the epoch a number stays below 2^53, where a double of a script is exact.
const countBits = 37

const countMask = 1<<countBits - 1

// EpochBase returns the number of the epoch whose count is 0. A script adds its counts to it.
func EpochBase(epoch uint16) Number { return Number(epoch) << countBits }

// FirstNumber returns the number of a part that begins as if unused at an instant in microseconds. The count begins at
// the instant's low bits: a part that was lost and begins again is then not taken for the part that it was.
func FirstNumber(epoch uint16, at int64) Number { return EpochBase(epoch) | Number(at&countMask) }

// Next returns the number after one more charge.
func (n Number) Next() Number { return n&^countMask | (n+1)&countMask }

// Epoch returns the 16 bits of the epoch.
func (n Number) Epoch() uint16 { return uint16(n >> countBits) }

// ValidAt returns the number, or the first one of the epoch at an instant in microseconds if it is of another epoch.
//
// The instant is multiplied, so that first numbers of instants close together are far apart: the number after one
// charge is not the first one of the next microsecond. The factor keeps the product below 2^53.
func (n Number) ValidAt(epoch uint16, at int64) Number {
	if n.Epoch() != epoch {
		return FirstNumber(epoch, at&countMask*40_503)
	}
	return n
}

// mostBehind is the most charges that a follower can lack because they are still under way. A larger gap is none that
// waiting closes.
const mostBehind = 1 << 16

// Behind reports whether a part with this number lacks charges that another one has had, and that may be on their way.
func (n Number) Behind(other Number) bool {
	gap := (other - n) & countMask
	return n != 0 && n.Epoch() == other.Epoch() && gap > 0 && gap <= mostBehind
}

// Lead is what the leading side has said to a charge, for the side that follows behind it in a charge of its own. The
// zero Lead belongs to a charge that follows none.
type Lead struct {
	// Number is the leading side's before the charge. Unused reports that the leading side was as if unused then:
	// two sides as if unused have had the same charges, whatever their numbers are.
	Number Number
	Unused bool
	// Counted reports that the charge has changed what the leading side remembers (Observation.Counts), so that the number goes up.
	Counted bool
	// Patient has a follower that is ahead of its predecessors left unjudged, as Deferred, for the caller to try
	// again. Without it the follower is judged, and what it lacks makes it Apart.
	Patient bool
}

// Forgotten returns the instant in microseconds from which no state of a limit depends on whether a charge at the given
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
