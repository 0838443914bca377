package evidence

import "github.com/shadowlimit/shadowlimit/algorithms"

// Skips count inconclusive comparisons by algorithms.SkipReason.
type Skips [len(algorithms.AllSkipReasons)]int64

// add joins what another observer counted.
func (s *Skips) add(other *Skips) {
	for r, n := range other {
		s[r] += n
	}
}

// reasonOf returns why a comparison is inconclusive. Of two skipped sides the authoritative's reason counts, so each
// comparison has one reason and the counts add up.
func reasonOf(o *[2]algorithms.Observation) algorithms.SkipReason {
	for role := range o {
		if o[role].Status == algorithms.Skipped || o[role].Reason != 0 {
			return o[role].Reason
		}
	}

	// A degraded answer is of a key that shared a bucket with others, because memory was full.
	if o[0].Degraded || o[1].Degraded {
		return algorithms.MemoryFull
	}

	return algorithms.OtherReason
}
