package divergence

import "github.com/shadowlimit/shadowlimit/algorithms"

// reasonOf returns why a comparison is inconclusive.
func reasonOf(o *[2]algorithms.Observation) algorithms.SkipReason {
	for role := range o {
		if o[role].Status == algorithms.Skipped {
			return o[role].Reason
		}
	}
	if o[0].Degraded || o[1].Degraded {
		return algorithms.MemoryFull
	}
	return algorithms.OtherReason
}
