package replay

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// causes count differences by their probable cause. They are only asked about requests that differ, which are few.
type causes struct {
	clients map[uint32]*divergence.ClientCauses // of the keys that lose requests
	denied  [len(divergence.AllCauses)]causeCount
	allowed [len(divergence.AllCauses)]causeCount
}

// causeCount counts the differences of one cause. Where all of them were between the same limits, a remedy names numbers.
type causeCount struct {
	count  int64
	limits [2]algorithms.Limit // of the first one
	shapes [2]algorithms.Shape
	varied bool // another one had other limits
}

// note counts a difference, newly denied or newly allowed.
func (cs *causes) note(key uint32, c *algorithms.Charge, o *[2]algorithms.Observation, outcome divergence.Outcome) {
	setting := divergence.Setting{Cost: c.Cost}
	for role, side := range c.Sides {
		setting.Limits[role], setting.Shapes[role] = side.Limit, algorithms.TraitsOf(side.Algorithm).Shape
	}
	cause := setting.Cause(o, outcome)

	counts := &cs.allowed
	if outcome == divergence.NewlyDenied {
		counts = &cs.denied
		if cs.clients[key] == nil {
			cs.clients[key] = &divergence.ClientCauses{}
		}
		cs.clients[key][cause]++
	}

	n := &counts[cause]
	if n.count == 0 {
		n.limits, n.shapes = setting.Limits, setting.Shapes
	}
	n.varied = n.varied || n.limits != setting.Limits || n.shapes != setting.Shapes
	n.count++
}

// countsOfCauses are the counts alone, in the order of all causes.
func countsOfCauses(list *[len(divergence.AllCauses)]causeCount) []int64 {
	counts := make([]int64, len(list))
	for i := range list {
		counts[i] = list[i].count
	}
	return counts
}
