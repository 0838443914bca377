package replay

import (
	"cmp"
	"iter"
	"slices"
)

// eventBlock is how many events a block has: 2 MB of them, and a whole number of batches.
const eventBlock = 1 << 16

// eventList keeps events in blocks. A list of one piece would be copied as it grows, with both pieces in memory.
type eventList struct{ blocks [][]event }

func (l *eventList) add(e event) {
	n := len(l.blocks)
	switch {
	case n == 0: // a file of many policies has few events for most of them, so the first block grows
		l.blocks = append(l.blocks, nil)
	case len(l.blocks[n-1]) == eventBlock:
		l.blocks = append(l.blocks, make([]event, 0, eventBlock))
	}

	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, e)
}

// last returns the event that was added last.
func (l *eventList) last() *event { return l.at(l.len() - 1) }

func (l *eventList) at(i int) *event { return &l.blocks[i/eventBlock][i%eventBlock] }

func (l *eventList) len() int {
	n := len(l.blocks)
	if n == 0 {
		return 0
	}
	return (n-1)*eventBlock + len(l.blocks[n-1])
}

// all yields the events in their order.
func (l *eventList) all() iter.Seq[*event] {
	return func(yield func(*event) bool) {
		for _, block := range l.blocks {
			for i := range block {
				if !yield(&block[i]) {
					return
				}
			}
		}
	}
}

// batches yields the events in their order, in pieces of at most batch.
func (l *eventList) batches() iter.Seq[[]event] {
	return func(yield func([]event) bool) {
		for _, block := range l.blocks {
			for piece := range slices.Chunk(block, batch) {
				if !yield(piece) {
					return
				}
			}
		}
	}
}

// inOrder compares two events by their instants and, of one instant, by the order of collection.
func inOrder(a, b *event) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
}

// sort puts the events in the order of their instants, and events of the same instant
// in the order of collection. Most logs are in order; the others are copied once.
func (l *eventList) sort() {
	var before *event
	sorted := true
	for e := range l.all() {
		sorted = sorted && (before == nil || inOrder(before, e) < 0)
		before = e
	}
	if sorted {
		return
	}

	list := slices.Concat(l.blocks...)
	slices.SortFunc(list, func(a, b event) int { return inOrder(&a, &b) })
	l.blocks = slices.Collect(slices.Chunk(list, eventBlock))
}
