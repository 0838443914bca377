package gate_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// The gate passes at the instant of its forecast and not a minute earlier, if all stays as it was.
func TestForecastComesTrue(t *testing.T) {
	tests := []struct {
		name     string
		soak     time.Duration // declared; 0 if graded
		percent  float64
		badHours []int64
		from     int           // the hour from which on there is a forecast with the right instant
		want     time.Duration // the pass, after the start
	}{
		{"no strike", 0, 0, nil, 20, 48 * time.Hour},
		{"to most keys", 0, 100, nil, 20, 168 * time.Hour},
		{"the strike stays", 0, 0, []int64{49}, 76, (50 + 96) * time.Hour},
		{"twice a declared soak, not of whole hours", 4995 * time.Minute, 100, []int64{49}, 76, (50*60 + 2*4995) * time.Minute},
		{"a declared soak is over, the strike leaves", 100 * time.Hour, 100, []int64{49}, 76, (50 + 168) * time.Hour},
		{"the week is over, the strike leaves", 0, 100, []int64{49}, 76, (50 + 168) * time.Hour},
		{"the strike leaves before a long soak is over", 200 * time.Hour, 100, []int64{49}, 76, (50 + 200) * time.Hour},
		{"the first strike leaves", 70 * time.Hour, 100, []int64{49, 73}, 125, (50 + 168) * time.Hour},
		{"both strikes leave", 100 * time.Hour, 100, []int64{49, 73}, 125, (74 + 168) * time.Hour},
	}

	for _, tt := range tests {
		cfg := gate.Config{Soak: tt.soak}.WithDefaults()
		assess := func(minutes int) gate.Result {
			e := evidence{minutes: minutes, badHours: tt.badHours}.build()
			e.Step = gate.Step{Name: "a step", Percent: tt.percent}
			return gate.Assess(cfg, e)
		}

		instant, last := monday.Add(tt.want), int(tt.want.Minutes())-1
		for at := tt.from * hour; at < last; at += (last - tt.from*hour) / 7 {
			if g := assess(at); g.WouldPassAt == nil || !g.WouldPassAt.Equal(instant) {
				t.Errorf("%s: the forecast at minute %d is %v, want %s (%s)", tt.name, at, g.WouldPassAt, instant, g.Reason)
			}
		}

		if g := assess(last); g.Verdict == pass {
			t.Errorf("%s: %s (%s) a minute before the forecast", tt.name, g.Verdict, g.Reason)
		}
		if g := assess(last + 1); g.Verdict != pass {
			t.Errorf("%s: %s (%s) at the forecast", tt.name, g.Verdict, g.Reason)
		}
	}
}
