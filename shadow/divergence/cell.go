package divergence

import "github.com/shadowlimit/shadowlimit/algorithms"

// mostCells bounds the cells of an hour, also of one that a later release wrote with finer cells.
const mostCells = 256

// Cell counts how often the candidate decided for the keys of one cell, and how often it denied them. The counts while
// the authoritative was enforced predict those while the candidate is.
type Cell struct {
	Decided, Denied [2]int64 // by enforced role
}

// add joins the same cell of another observer.
func (c *Cell) add(other *Cell) {
	for role := range c.Decided {
		c.Decided[role] += other.Decided[role]
		c.Denied[role] += other.Denied[role]
	}
}

// countCell counts what the candidate decided for a key of a cell.
func (h *Hour) countCell(cell int, enforced algorithms.Role, outcome Outcome) {
	if cell == NoCell {
		return
	}

	// Only comparisons of two answers count. A denial that was declared as expected is a denial for the client, too.
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

// cell returns a cell, for which it makes room. A number out of range is taken for the nearest in range, which keeps
// the memory bound.
func (h *Hour) cell(i int) *Cell {
	i = min(max(i, 0), mostCells-1)
	if i >= len(h.Cells) {
		h.Cells = append(h.Cells, make([]Cell, i+1-len(h.Cells))...)
	}
	return &h.Cells[i]
}
