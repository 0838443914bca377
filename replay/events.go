package replay

import (
	"cmp"
	"slices"
)

// Events are charges to replay. The zero value is empty and ready to use. Memory
// grows by 24 bytes an event and by the distinct keys.
type Events struct {
	list  []event
	keys  []string
	index map[string]uint32
}

type event struct {
	at, cost int64  // microseconds since the epoch, units
	key      uint32 // in keys
	order    uint32 // of collection
}

// Add appends a charge of cost units for key at an instant in microseconds since
// the epoch. It copies key.
func (e *Events) Add(at int64, key []byte, cost int64) {
	id, ok := e.index[string(key)]
	if !ok {
		if e.index == nil {
			e.index = make(map[string]uint32)
		}
		id = uint32(len(e.keys))
		e.keys = append(e.keys, string(key))
		e.index[e.keys[id]] = id
	}
	e.list = append(e.list, event{at, cost, id, uint32(len(e.list))})
}

// Len returns the number of charges.
func (e *Events) Len() int { return len(e.list) }

// sort puts the events in the order of their instants, ties as collected.
func (e *Events) sort() {
	inOrder := func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	}
	if !slices.IsSortedFunc(e.list, inOrder) {
		slices.SortFunc(e.list, inOrder)
	}
}
