package divergence_test

import (
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Hash is xxHash64 of the three texts with zero bytes between them, however long they are.
func TestHashOfLongTexts(t *testing.T) {
	for n := range 600 {
		key := strings.Repeat("k", n)
		if got, want := divergence.Hash("name", "policy", key), xxhash.Sum64String("name\x00policy\x00"+key); got != want {
			t.Fatalf("a key of %d bytes: hash %x, want %x", n, got, want)
		}
	}
}

// The cell of a key is in the slot whose range has the key's rank.
func TestCellsLieInTheirRange(t *testing.T) {
	for rank := range uint64(10_000) {
		percent := divergence.HashPercent(rank)
		lower, upper := divergence.CellRange(divergence.CellOf(rank))
		if percent < lower || percent >= upper {
			t.Fatalf("rank %d, %g %%: in a cell from %g to %g %%", rank, percent, lower, upper)
		}
	}
}
