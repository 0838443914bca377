package evidence

import (
	"cmp"
	"slices"
)

const (
	// heaviest is how many keys a tick names as those with the most differences.
	heaviest = 4
	// weighed is how many keys a stripe keeps to find the heaviest: more, so that the order of requests matters less.
	weighed = 8
)

// Weight is how often a key differed in a tick.
type Weight struct {
	Key   uint32 `json:"k"` // its hash
	Count int64  `json:"n"` // at most the true count
}

// Weights are the keys that differed most, in no order. A key may occur several times, once for each observer; a key
// that is missing differed seldom.
type Weights []Weight

// count counts one difference of a key, by the algorithm of Misra and Gries (1982): it finds each key with more than
// 1/(weighed+1) of all differences, and undercounts it by no more than that share.
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

	// A key that finds no room takes one from each of the others, and is not kept itself.
	for i := range *w {
		(*w)[i].Count--
	}
	*w = slices.DeleteFunc(*w, func(one Weight) bool { return one.Count <= 0 })
}

// Top returns the n heaviest keys, each of them once, the heaviest first. Keys of one count are in the order of their
// hashes, so that the result does not depend on the order of a map.
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

// Total returns the sum of all counts.
func (w Weights) Total() (n int64) {
	for _, one := range w {
		n += one.Count
	}
	return n
}
