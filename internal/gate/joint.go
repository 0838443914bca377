package gate

import "slices"

// Joint returns for each of several e-values the least value with which it is among those that e-BH rejects at a rate, the others
// as they are (Wang and Ramdas, "False discovery rate control with e-values"): the k largest are rejected, for the largest k of
// which each is at least n / (k * rate). However the n depend on each other, the expected share of true hypotheses among those
// rejected is at most the rate.
func Joint(values []float64, rate float64) (needed []float64) {
	n := len(values)
	bar := func(k int) float64 { return float64(n) / (float64(k) * rate) }
	for i := range values {
		others := slices.Delete(slices.Clone(values), i, i+1)
		slices.Sort(others)
		k := n
		for k > 1 && others[n-k] < bar(k) { // the least of the k-1 largest
			k--
		}
		needed = append(needed, bar(k))
	}
	return needed
}
