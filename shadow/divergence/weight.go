package divergence

import (
	"cmp"
	"slices"
)

const (
	// heaviest is how many keys a tick names as those with the most differences.
	heaviest = 4
	// weighed is how many keys a stripe keeps for that.
	weighed = 8
)

// Weight is how often a key differed in a tick.
type Weight struct {
	Key   uint32 `json:"k"` // its hash
	Count int64  `json:"n"` // never more than it was
}

// Weights are keys, not in order. Those that are not there differed seldom.
type Weights []Weight

// count counts one difference of a key. Of keys that have more than their share
// of all it misses none, and undercounts by no more than a share (Misra and Gries 1982).
func (w *Weights) count(key uint32) {
	for i := range *w {
		if (*w)[i].Key == key {
			(*w)[i].Count++
			return
		}
	}
	if len(*w) < weighed {
		*w = append(*w, Weight{key, 1})
		return
	}
	for i := range *w {
		(*w)[i].Count--
	}
	*w = slices.DeleteFunc(*w, func(one Weight) bool { return one.Count <= 0 })
}

// Top returns the n heaviest keys, each of them once, the heaviest first.
func (w Weights) Top(n int) Weights {
	sums := map[uint32]int64{}
	for _, one := range w {
		sums[one.Key] += one.Count
	}
	var top Weights
	for key, count := range sums {
		top = append(top, Weight{key, count})
	}
	slices.SortFunc(top, func(a, b Weight) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	return top[:min(n, len(top))]
}

// Total returns the counts of all.
func (w Weights) Total() (n int64) {
	for _, one := range w {
		n += one.Count
	}
	return n
}
