package shadow

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The record of one store lives as long as a state of the other one can depend on a charge. A window of the
// calendar may be longer than the one in which the Unix epoch began, which was on a Thursday.
func TestRecordsAreKeptForTheLongestWindow(t *testing.T) {
	for _, calendar := range []algorithms.Calendar{algorithms.Week, algorithms.Month, algorithms.Year} {
		m := &migration{progress: &progress{}}
		m.sides[0].shape, m.sides[1].shape = algorithms.AlignedWindow, algorithms.AlignedWindow
		ev := &evaluation{migration: m}
		ev.limits[0] = algorithms.Limit{Requests: 10, Window: calendar.Longest(), Options: algorithms.Options{Calendar: calendar}}
		ev.limits[1] = algorithms.Limit{Requests: 10, Window: time.Minute}

		if got := ev.keep(); got != calendar.Longest() {
			t.Errorf("%s: records are kept for %s, and a state lasts %s", calendar, got, calendar.Longest())
		}
	}
}
