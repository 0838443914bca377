package evidence

import (
	"math"
	"testing"
)

// Another program may have written an entry. A count that no instance can have makes it unreadable: below 0, or in a sum
// that overflows, it would be a share of nothing, of which the gate asks for the value.
func TestCountsAreBelievable(t *testing.T) {
	for count, want := range map[int64]bool{
		0: true, 1: true, mostCounted: true,
		-1: false, mostCounted + 1: false, math.MinInt64: false, math.MaxInt64: false,
	} {
		// An entry of history is refused in whole, so that the gate says it is unreadable.
		p := packedHour{Minutes: []packedMinute{{Minute: 59, Tally: Tally{ExpectedAllowed: count}}}}
		if _, err := p.unpack(0); (err == nil) != want {
			t.Errorf("a count of %d in a minute: %v, want it to be read: %t", count, err, want)
		}

		costs := count
		if count == mostCounted+1 { // a cost may be larger than a number of requests
			costs = mostCost + 1
		}
		for _, d := range []Disturbance{
			{Marks: count}, {Young: count}, {Shifted: [2]int64{0, count}}, {Compared: [2]int64{0, costs}},
			{OneSided: [2]Skips{{costs}}},
		} {
			p := packedHour{Minutes: []packedMinute{{Disturbed: &d}}}
			if _, err := p.unpack(0); (err == nil) != want {
				t.Errorf("%+v: %v in a minute, want it to be read: %t", d, err, want)
			}
		}
	}
}
