package adaptive

import (
	"testing"
	"time"
)

// A replay has the levels that the fleet would have had: a slow minute lowers them, a calm one brings them back, and a silence, too.
func TestCourseFollowsTheRule(t *testing.T) {
	r := Usual(LatencyP99)
	var c Course
	for second := range 60 {
		for n := range 10 {
			at := began.Add(time.Duration(second)*time.Second + time.Duration(n)*time.Millisecond)
			took := 10 * time.Millisecond
			if second >= 20 && second < 40 {
				took = 600 * time.Millisecond
			}
			c.Served(at, took, false)
		}
	}

	changes := c.Levels(&r)
	for _, row := range []struct {
		at   time.Duration
		want Level
	}{{0, 64}, {20 * time.Second, 64}, {31 * time.Second, 32}, {50 * time.Second, 32}, {10 * time.Minute, 64}} {
		if got := At(changes, began.Add(row.at)); got != row.want {
			t.Errorf("after %s: %d, want %d of %v", row.at, got, row.want, changes)
		}
	}
	if len(changes) != 2 || changes[0].At.Sub(began) < 25*time.Second {
		t.Errorf("%v: want a fall, which is known only after it was seen, and a rise", changes)
	}
}

// The order of the lines says nothing, a log without a signal lowers no level, and one of years is looked at only where it has lines.
func TestCourseOfAnyLog(t *testing.T) {
	r := Usual(ErrorRate)
	var forwards, backwards, empty Course
	const year = 365 * 24 * time.Hour
	for n := range 3000 {
		at := began.Add(time.Duration(n%3)*year + time.Duration(n)*10*time.Millisecond)
		forwards.Served(at, 0, n%2 == 0)
	}
	for n := 2999; n >= 0; n-- {
		at := began.Add(time.Duration(n%3)*year + time.Duration(n)*10*time.Millisecond)
		backwards.Served(at, 0, n%2 == 0)
	}

	a, b := forwards.Levels(&r), backwards.Levels(&r)
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%v and backwards %v", a, b)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("change %d is %v and backwards %v", i, a[i], b[i])
		}
	}
	if last := a[len(a)-1]; last.Level != Full {
		t.Errorf("the level stays at %d behind the log", last.Level)
	}
	if list := empty.Levels(&r); list != nil {
		t.Errorf("an empty log has the levels %v", list)
	}
}

// A saturation is the mean of a time's lines.
func TestCourseOfASaturation(t *testing.T) {
	r := Usual(Saturation)
	var c Course
	for n := range 100 {
		c.Saturated(began.Add(time.Duration(n)*100*time.Millisecond), 0.8+0.2*float64(n%2))
	}
	if changes := c.Levels(&r); len(changes) == 0 || changes[0].Level != 32 {
		t.Errorf("a mean of 0.9: %v, want a half of the limit", changes)
	}
}
