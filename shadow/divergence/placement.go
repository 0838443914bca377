package divergence

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// keyShares is how finely keys are divided: a share is a hundredth of a percent.
const keyShares = 10_000

// Hash places a key: xxHash64 with seed 0 of name, policy and the key in clear, with a zero byte between them. It is
// the same on every instance and in every version, so that a key stays on its side. The name and the policy are in it,
// so that a client is not among the first of every canary.
func Hash(name, policy, key string) uint64 {
	// To hash one text is faster than to hash its parts. A longer one is allocated: keys have at most 256 bytes.
	var room [384]byte
	text := append(append(room[:0], name...), 0)
	text = append(append(text, policy...), 0)
	return xxhash.Sum64(append(text, key...))
}

// HashPercent returns where a key with this hash lies, from 0 to 99.99: it belongs to a canary of more percent.
func HashPercent(hash uint64) float64 { return float64(hash%keyShares) * 100 / keyShares }

// InCanary reports whether a key with this hash belongs to a canary of percent of the keys. A larger percentage only
// adds keys.
func InCanary(hash uint64, percent float64) bool {
	return float64(hash%keyShares) < percent*(keyShares/100)
}

// Position is where a key stands in the order in which keys come to the candidate. It is the same on every instance
// with the same policy file.
type Position struct {
	Hash  uint64
	Place algorithms.Place
}

// InCanary reports whether the key belongs to a canary of percent of the keys.
func (p Position) InCanary(percent float64) bool {
	switch p.Place {
	case algorithms.First:
		return percent > 0
	case algorithms.Last:
		return false
	}
	return InCanary(p.Hash, percent)
}

// slots divide the keys by the smallest canary that includes them: each is the percentage at which a slot ends. They
// include the usual steps of a canary, so that a cell lies either inside or outside of it.
var slots = [...]float64{0.1, 0.5, 1, 2, 5, 10, 20, 25, 50, 75, 100}

// slotEnds are the ranks at which the slots end.
var slotEnds = func() (ends [len(slots)]int) {
	for i, percent := range slots {
		ends[i] = int(math.Ceil(percent * (keyShares / 100)))
	}
	return ends
}()

// cellsPerSlot is how many cells a slot has: how much they differ from each other shows how far clients differ.
const cellsPerSlot = 8

// NoCell is the cell of a key that the hash does not place: the prediction does not count it.
const NoCell = -1

// NumCells is the number of cells into which the keys are divided.
const NumCells = len(slots) * cellsPerSlot

// CellOf returns the cell, less than NumCells, of a key with this hash.
func CellOf(hash uint64) int {
	// The last slot ends at 100 %, so every rank is in one. Most keys are in the last ones.
	rank := int(hash % keyShares)
	slot := len(slots) - 1
	for slot > 0 && rank < slotEnds[slot-1] {
		slot--
	}

	// The bits above the rank's choose among the cells of a slot, independently of the rank.
	return slot*cellsPerSlot + int(hash>>40%cellsPerSlot)
}

// CellRange returns the percentages between which the keys of a cell lie: a canary of upper percent or more includes
// all of them, and one of lower percent or less includes none.
func CellRange(cell int) (lower, upper float64) {
	slot := cell / cellsPerSlot
	if slot > 0 {
		lower = slots[slot-1]
	}
	return lower, slots[slot]
}
