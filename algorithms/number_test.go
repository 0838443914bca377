package algorithms

import (
	"testing"
	"time"
)

// TestNumbers checks that a count never runs into the epoch's bits, and which gaps waiting may close.
func TestNumbers(t *testing.T) {
	last := FirstNumber(7, countMask)
	if next := last.Next(); next != FirstNumber(7, 0) || next.Epoch() != 7 {
		t.Errorf("after the last count comes %x", next)
	}
	if n := FirstNumber(1<<16-1, countMask); n >= 1<<53 || n.Epoch() != 1<<16-1 {
		t.Errorf("the largest number is %x: a double does not hold it", n)
	}
	if n := FirstNumber(3, -1); n != FirstNumber(3, countMask) {
		t.Errorf("an instant before 1970 gives %x", n)
	}

	n := FirstNumber(7, 5)
	behind := map[Number]bool{
		n: false, n.Next(): true, FirstNumber(7, 5+mostBehind): true, FirstNumber(7, 6+mostBehind): false,
		FirstNumber(8, 6): false, FirstNumber(7, 4): false,
	}
	for other, want := range behind {
		if got := n.Behind(other); got != want {
			t.Errorf("%x behind %x: %t", n, other, got)
		}
	}
	if !last.Behind(last.Next()) || Number(0).Behind(n) {
		t.Error("a gap over the end of the count closes by waiting, that to a part without a number does not")
	}
}

// TestFirstNumbersAreFarApart checks that a part which begins a few microseconds after another one is not taken for
// that one after a few charges.
func TestFirstNumbersAreFarApart(t *testing.T) {
	for at := int64(-5); at <= 5; at++ {
		n := Number(0).ValidAt(7, at)
		for charges := range 100 {
			for later := int64(1); later <= 100; later++ {
				if n == Number(0).ValidAt(7, at+later) {
					t.Fatalf("begun at %d, after %d charges: the number of a part that begins %d us later", at, charges, later)
				}
			}
			n = n.Next()
		}
	}
}

// TestForgotten checks the instants against windows and buckets worked out by hand.
func TestForgotten(t *testing.T) {
	minute := Limit{Requests: 60, Window: time.Minute}
	burst := Limit{Requests: 60, Window: time.Minute, Burst: 10}
	at := int64(97 * time.Second / time.Microsecond)

	tests := []struct {
		shape Shape
		limit Limit
		want  time.Duration
	}{
		{AlignedWindow, minute, 2 * time.Minute},
		{SlidingCounter, minute, 3 * time.Minute},
		{AnchoredWindow, minute, 157 * time.Second},
		{SlidingLog, minute, 157 * time.Second},
		{UnknownShape, minute, 157 * time.Second},
		{Bucket, minute, 157 * time.Second},
		{Bucket, burst, 107 * time.Second},
	}
	covered := map[Shape]bool{}
	for _, tt := range tests {
		covered[tt.shape] = true
		if got := Forgotten(tt.shape, tt.limit, at); got != int64(tt.want/time.Microsecond) {
			t.Errorf("shape %s of %s: %d us, want %s", tt.shape, tt.limit, got, tt.want)
		}
	}
	for _, a := range All {
		if shape := TraitsOf(a).Shape; !covered[shape] {
			t.Errorf("no row has the shape of %s, %s: add one with an instant that you have worked out by hand", a.Name(), shape)
		}
	}
	if got := Forgotten(AlignedWindow, minute, -1); got != 0 {
		t.Errorf("before 1970: %d", got)
	}
}
