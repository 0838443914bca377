package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Blocks hold what one slice would hold: at their borders, in order or not.
func TestEventListIsASlice(t *testing.T) {
	for _, n := range []int{0, 1, batch, eventBlock - 1, eventBlock, eventBlock + 1, 2*eventBlock + 77} {
		for _, instants := range []uint64{1, 1000, 1 << 40} {
			draw := rand.New(rand.NewPCG(uint64(n), instants))
			var list eventList
			var want []event
			for i := range n {
				e := event{at: int64(draw.Uint64N(instants)), cost: int64(i), order: uint32(i)}
				list.add(e)
				want = append(want, e)
				if *list.last() != e || list.len() != i+1 {
					t.Fatalf("%d events: after event %d the last one is %+v", n, i, *list.last())
				}
			}
			isSlice(t, &list, want)

			list.sort()
			slices.SortFunc(want, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
			isSlice(t, &list, want)
		}
	}
}

func isSlice(t *testing.T, list *eventList, want []event) {
	t.Helper()
	var all, batches []event
	for e := range list.all() {
		all = append(all, *e)
	}
	for piece := range list.batches() {
		if len(piece) == 0 || len(piece) > batch {
			t.Fatalf("a batch of %d", len(piece))
		}
		batches = append(batches, piece...)
	}

	if !slices.Equal(all, want) || !slices.Equal(batches, want) {
		t.Fatalf("%d events: all or batches are not those that were added, in order", len(want))
	}
	for i := range want {
		if *list.at(i) != want[i] {
			t.Fatalf("event %d is %+v, want %+v", i, *list.at(i), want[i])
		}
	}
}
