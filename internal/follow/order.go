package follow

import (
	"cmp"
	"container/heap"
	"time"
)

// place is a line's place in the order in which lines are judged: by their instants, and those of one instant as a replay of all files
// reads them.
type place struct {
	At     int64 // us
	Log    int
	Seq    int64 // of its file
	Offset int64
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.At, other.At), cmp.Compare(p.Log, other.Log), cmp.Compare(p.Seq, other.Seq),
		cmp.Compare(p.Offset, other.Offset))
}

// held is a line that waits for those before it.
type held struct {
	place
	source *source
	answer Answer
	checks []Check
}

const (
	// holdFor is for how long a line waits for earlier ones: the workers of a server write their lines up to a second out of order.
	// One that comes later than that is judged when it comes.
	holdFor = 2 * time.Second
	// mostHeld bounds the lines that wait.
	mostHeld = 1 << 16
)

// order is the lines that wait. The mark is the last place that was judged: what is at or before it was judged, and what waits is behind
// it. So a mark and a position are enough to begin again.
type order struct {
	lines heldHeap
	mark  place
	low   int64 // the instant up to which all lines were read, as far as they are in order
}

// add takes a line.
func (o *order) add(h held) {
	h.source.pending++
	heap.Push(&o.lines, h)
}

// next returns the next line that may be judged, if there is one. With all it does not wait for others.
func (o *order) next(all bool) (h held, ok bool) {
	if len(o.lines) == 0 {
		return h, false
	}
	first := o.lines[0].place
	late := first.compare(o.mark) <= 0
	if !all && !late && len(o.lines) <= mostHeld && first.At > o.low-int64(holdFor/time.Microsecond) {
		return h, false
	}

	h = heap.Pop(&o.lines).(held)
	h.source.pending--
	if !late {
		o.mark = first
	}
	return h, true
}

// heldHeap is a container/heap.
type heldHeap []held

func (h heldHeap) Len() int           { return len(h) }
func (h heldHeap) Less(i, j int) bool { return h[i].place.compare(h[j].place) < 0 }
func (h heldHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heldHeap) Push(x any)        { *h = append(*h, x.(held)) }
func (h *heldHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = held{}
	*h = (*h)[:last]
	return x
}
