package divergence

import "github.com/shadowlimit/shadowlimit/algorithms"

// mostCells bounds how finely keys are divided.
const mostCells = 256

// Cell is what the candidate said of a part of the keys, by who was enforced for
// them: a prediction of its denials, and what came of it.
type Cell struct {
	Decided, Denied [2]int64 // by enforced role
}

func (c *Cell) add(other *Cell) {
	for role := range c.Decided {
		c.Decided[role] += other.Decided[role]
		c.Denied[role] += other.Denied[role]
	}
}

// Causes count differences by what has probably made them.
type Causes struct{ Denied, Allowed [causes]int64 }

func (c *Causes) add(other *Causes) {
	for i := range c.Denied {
		c.Denied[i] += other.Denied[i]
		c.Allowed[i] += other.Allowed[i]
	}
}

func (c *Causes) count(outcome Outcome, cause Cause) {
	switch outcome {
	case NewlyDenied:
		c.Denied[cause]++
	case NewlyAllowed:
		c.Allowed[cause]++
	}
}

// countCell counts what the candidate decided for keys of a cell.
func (h *Hour) countCell(cell int, enforced algorithms.Role, outcome Outcome) {
	denied := int64(0)
	switch outcome {
	case AgreeDeny, NewlyDenied, ExpectedDenied:
		denied = 1
	case AgreeAllow, NewlyAllowed, ExpectedAllowed:
	default:
		return
	}
	c := h.cell(cell)
	c.Decided[enforced]++
	c.Denied[enforced] += denied
}

// cell returns a cell, which it makes room for.
func (h *Hour) cell(i int) *Cell {
	i = min(max(i, 0), mostCells-1)
	if i >= len(h.Cells) {
		h.Cells = append(h.Cells, make([]Cell, i+1-len(h.Cells))...)
	}
	return &h.Cells[i]
}
