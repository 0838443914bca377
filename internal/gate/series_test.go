package gate_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// The last hour of a series has the scores of the gate, each hour its own ratio.
func TestSeriesEndsWithTheGate(t *testing.T) {
	since := time.Date(2026, 3, 1, 10, 20, 0, 0, time.UTC)
	e := gate.Evidence{Since: since, Now: since.Add(50*time.Hour + 30*time.Minute), Live: 1}

	// Hour 7 has 25 newly denied among 125, all others none.
	first := since.Unix() / 60
	for m := first; m < e.Now.Unix()/60; m++ {
		minute := evidence.Minute{Unix: m}
		minute.Tally[evidence.AgreeAllow] = 100
		if m/60 == first/60+7 {
			minute.Tally[evidence.NewlyDenied] = 25
		}
		e.History.Minutes = append(e.History.Minutes, minute)
	}
	e.History.Live = []evidence.Span{{From: first, To: e.Now.Unix() / 60}}

	cfg := gate.Config{}.WithDefaults()
	points, last := gate.Series(cfg, e), gate.Assess(cfg, e)
	firstEnd := since.Truncate(time.Hour).Add(time.Hour)
	if len(points) != 51 || !points[0].At.Equal(firstEnd) || !points[50].At.Equal(e.Now) {
		t.Fatalf("%d points from %s to %s", len(points), points[0].At, points[len(points)-1].At)
	}

	for _, r := range evidence.AllRatios {
		if got, want := points[50].Scores[r], last.Ratio(r).Score; got != want {
			t.Errorf("%s: the last score is %g, the gate's %g", r, got, want)
		}
		if want := 1.0; r != evidence.OfDenials && points[0].Scores[r] != want {
			t.Errorf("%s: the first score is %g, before any block is closed", r, points[0].Scores[r])
		}
	}

	for i, p := range points {
		want := 0.0
		if i == 7 {
			want = 0.2
		}
		if got := p.Ratios[evidence.OfAllows]; got == nil || *got != want {
			t.Errorf("hour %d: newly denied %v, want %g", i, got, want)
		}
		if p.Ratios[evidence.OfDenials] != nil {
			t.Errorf("hour %d: newly allowed is %g of nothing", i, *p.Ratios[evidence.OfDenials])
		}
	}
}

// Evidence that began in the year 1, as a state that cannot be read says, or in 1970 by a clock that was wrong, has no more points
// than hours are kept.
func TestSeriesIsBounded(t *testing.T) {
	for _, since := range []time.Time{{}, time.Unix(0, 0)} {
		points := gate.Series(gate.Config{}.WithDefaults(), gate.Evidence{Since: since, Now: time.Now()})
		if most := evidence.KeptDays*evidence.HoursPerDay + 1; len(points) > most {
			t.Errorf("since %s: %d points, want at most %d", since, len(points), most)
		}
	}
}
