package replay

import (
	"cmp"
	"slices"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Events are charges to replay. The zero value is empty and ready to use. Memory
// grows by 32 bytes an event and by the distinct keys and limits.
type Events struct {
	list   []event
	keys   []string
	index  map[string]uint32
	limits [][2]algorithms.Limit // by role
	known  map[[2]algorithms.Limit]uint32
}

type event struct {
	at, cost int64  // microseconds since the epoch, units
	key      uint32 // in keys
	order    uint32 // of collection
	limits   uint32 // in limits, from 1; 0 means those of the configured sides
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
	e.list = append(e.list, event{at: at, cost: cost, key: id, order: uint32(len(e.list))})
}

// AddLimits is Add for a charge with limits of its own, by role.
func (e *Events) AddLimits(at int64, key []byte, cost int64, limits [2]algorithms.Limit) {
	e.Add(at, key, cost)
	id, ok := e.known[limits]
	if !ok {
		if e.known == nil {
			e.known = make(map[[2]algorithms.Limit]uint32)
		}
		e.limits = append(e.limits, limits)
		id = uint32(len(e.limits))
		e.known[limits] = id
	}
	e.list[len(e.list)-1].limits = id
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
