package replay

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// causes count differences by their probable cause. They are only asked about requests that differ, which are few.
type causes struct {
	clients map[uint32]*[len(evidence.AllCauses)]int64 // of the keys that lose requests
	denied  [len(evidence.AllCauses)]int64
	allowed [len(evidence.AllCauses)]int64
}

// note counts a difference, newly denied or newly allowed.
func (cs *causes) note(key uint32, first bool, c *algorithms.Check, o *[2]algorithms.Observation, outcome evidence.Outcome) {
	setting := evidence.Setting{Cost: c.Cost, First: first}
	for role, side := range c.Sides {
		setting.Limits[role], setting.Shapes[role] = side.Limit, algorithms.TraitsOf(side.Algorithm).Shape
	}
	cause := setting.Cause(o, outcome)

	if outcome == evidence.NewlyAllowed {
		cs.allowed[cause]++
		return
	}
	cs.denied[cause]++
	if cs.clients[key] == nil {
		cs.clients[key] = new([len(evidence.AllCauses)]int64)
	}
	cs.clients[key][cause]++
}
