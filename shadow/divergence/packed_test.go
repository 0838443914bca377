package divergence

import (
	"math"
	"testing"
)

// Another program may have written an entry. A count that no minute can have makes it unreadable: below 0, or in a sum
// that overflows, it would be a share of nothing, of which the gate asks for the value.
func TestCountsOfAMinuteAreBelievable(t *testing.T) {
	for count, want := range map[int64]bool{
		0: true, 1: true, mostAMinute: true,
		-1: false, mostAMinute + 1: false, math.MinInt64: false, math.MaxInt64: false,
	} {
		p := packedHour{Minutes: []packedMinute{{Minute: 59, Tally: Tally{Blind: count}}}}
		if _, err := p.unpack(0); (err == nil) != want {
			t.Errorf("a count of %d: %v, want it to be read: %t", count, err, want)
		}
	}
}
