package gate

import "slices"

// busyness says how many requests a busy hour has: the 80th percentile of the denominators so far. It is of earlier
// blocks only, so that the score stays a martingale.
type busyness struct {
	sorted []int64
}

// next returns the denominator of the next block in units of a busy block; -1 for the first.
func (b *busyness) next(denominator int64) float64 {
	busy := -1.0
	if n := len(b.sorted); n > 0 {
		busy = float64(denominator) / float64(b.sorted[(n-1)*4/5])
	}
	at, _ := slices.BinarySearch(b.sorted, denominator)
	b.sorted = slices.Insert(b.sorted, at, denominator)
	return busy
}
