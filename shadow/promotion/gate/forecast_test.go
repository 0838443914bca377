package gate

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// The gate passes at the instant of its forecast, if all stays as it was.
func TestForecastComesTrue(t *testing.T) {
	start := time.Date(2026, 3, 2, 10, 30, 0, 0, time.UTC)
	first := start.Unix() / 60
	cfg := Config{}.WithDefaults()
	var e Evidence
	e.Since, e.Live = start, 1

	var forecast *time.Time
	for m := int64(0); m < 4*minutesADay; m++ {
		minute := divergence.Minute{Unix: first + m}
		minute.Tally[divergence.AgreeAllow], minute.Tally[divergence.AgreeDeny] = 100, 1
		e.History.Minutes = append(e.History.Minutes, minute)
		e.History.Live = []divergence.Span{{From: first, To: first + m + 1}}
		e.History.Distinct[divergence.KeysDenied] = 30
		e.Now = start.Add(time.Duration(m+1) * time.Minute)

		// Judging takes a while, so it is done rarely until the gate may pass.
		if m%59 != 0 && m < 47*minutesAnHour {
			continue
		}

		g := Assess(cfg, e)
		switch {
		case m == 20*59:
			forecast = g.WouldPassAt
		case g.Verdict == Pass:
			if forecast == nil || !forecast.Equal(e.Now) || !e.Now.Equal(start.Add(48*time.Hour)) {
				t.Errorf("passed at %s, forecast %v", e.Now, forecast)
			}
			return
		}
	}
	t.Error("never passed")
}
