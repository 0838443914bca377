package gate

import "container/heap"

// busyness says how many requests a busy hour has: the 80th percentile of the denominators so far. It is of earlier
// blocks only, so that the score stays a martingale.
type busyness struct {
	// lower has the denominators up to the 80th percentile, as a heap with its largest at the
	// top; upper has the others, with its smallest at the top.
	lower, upper numbers
}

// next returns the denominator of the next block in units of a busy block; -1 for the first.
func (w *busyness) next(denominator int64) float64 {
	if len(w.lower) == 0 {
		heap.Push(&w.lower, -denominator)
		return -1
	}
	percentile := -w.lower[0]
	busy := float64(denominator) / float64(percentile)

	// The percentile of n numbers is that with the index 4*(n-1)/5, rounded down.
	if denominator <= percentile {
		heap.Push(&w.lower, -denominator)
	} else {
		heap.Push(&w.upper, denominator)
	}
	n := len(w.lower) + len(w.upper)
	for size := 4*(n-1)/5 + 1; len(w.lower) > size; {
		heap.Push(&w.upper, -heap.Pop(&w.lower).(int64))
	}
	for size := 4*(n-1)/5 + 1; len(w.lower) < size; {
		heap.Push(&w.lower, -heap.Pop(&w.upper).(int64))
	}
	return busy
}

// numbers is a heap with its smallest number at the top.
type numbers []int64

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }

// Push implements heap.Interface.
func (n *numbers) Push(v any) { *n = append(*n, v.(int64)) }

// Pop implements heap.Interface.
func (n *numbers) Pop() any {
	last := len(*n) - 1
	v := (*n)[last]
	*n = (*n)[:last]
	return v
}
