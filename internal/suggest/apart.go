package suggest

import (
	"cmp"
	"math"
	"slices"
)

// Clients are set apart where a gap in the ranks of what they send is one that the tail below it would hardly leave by chance.
const (
	// leastApart is what a client sends in some window that is set apart, so that the page with the most pictures is no abuse.
	leastApart = 100
	// leastGap is by how much the last client that is set apart is above the first that is not.
	leastGap = 2
	// mostApart is the share of the clients that may be set apart. More of them are how the service is used.
	mostApart = 0.1
	// byChance is the probability of a gap that is still taken for the tail's.
	byChance = 0.01
)

// setApart marks the clients that are far above all others in one of the windows. Counts are by window and client.
func setApart(clients []client, counts [][]int64) {
	for _, of := range counts {
		sorted := slices.Clone(of)
		slices.SortFunc(sorted, descending)
		n := apart(sorted)
		if n == 0 {
			continue
		}
		for i := range clients {
			clients[i].apart = clients[i].apart || of[i] >= sorted[n-1]
		}
	}
}

// apart returns how many of the sorted counts stand apart from the rest.
//
// In a tail of the form x^-a, the k-th largest is above the next one by a factor of g with the probability g^(-a*k) (Rényi), and Hill's
// estimate of a is from what is below the gap, which abuse has no part in. The deepest gap is taken: abusers have gaps among themselves.
func apart(sorted []int64) int {
	for k := int(mostApart * float64(len(sorted))); k > 0; k-- {
		above, below := sorted[k-1], sorted[k]
		if above < leastApart || above < leastGap*below {
			continue
		}
		if a := exponent(sorted[k:]); math.Pow(float64(above)/float64(below), -a*float64(k)) < byChance {
			return k
		}
	}
	return 0
}

// exponent is Hill's estimate of the tail's exponent.
func exponent(sorted []int64) float64 {
	n := min(len(sorted)-1, max(10, len(sorted)/20))
	if n < 1 {
		return 1 // a single other client says nothing: of the heaviest tails that logs have
	}
	var sum float64
	for _, x := range sorted[:n] {
		sum += math.Log(float64(x) / float64(sorted[n]))
	}
	// Counts are whole numbers, so ranks are often equal, and the tail is not as thin as they look.
	return 1 / max(sum/float64(n), 0.2)
}

func descending(a, b int64) int { return cmp.Compare(b, a) }
