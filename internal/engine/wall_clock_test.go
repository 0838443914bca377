package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a memory may differ from the fleet's, which may be set: evidence follows within a second.
func TestWallClockFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := new(wallClock), NewOn("test", nil, nil)
		memory := func() time.Time { return time.Now().Add(-3 * time.Hour) }
		behind := func() time.Duration { return e.now().Sub(w.at(memory(), e)) }

		if d := behind(); d != 0 {
			t.Errorf("the first instant is behind by %s", d)
		}
		time.Sleep(time.Second / 2)
		e.See(time.Hour, 1)
		if d := behind(); d != time.Hour {
			t.Errorf("within a second after the clock was set it is behind by %s, want what was set", d)
		}
		time.Sleep(time.Second / 2)
		if d := behind(); d != 0 {
			t.Errorf("a second after the clock was set it is behind by %s", d)
		}

		// An instant of long ago, as of a key whose state was ahead, is not within the second.
		e.See(0, 1)
		if got, want := w.at(memory().Add(-time.Minute), e), e.now(); !got.Equal(want) {
			t.Errorf("an earlier instant is of %s, want %s", got, want)
		}
	})
}
