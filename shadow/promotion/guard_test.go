package promotion

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// minutesOf makes minutes, the last one at 1000, with these counts in each.
func minutesOf(n int, allows, newlyDenied, keys int64) []divergence.Minute {
	list := make([]divergence.Minute, n)
	for i := range list {
		m := &list[i]
		m.Unix = int64(1000 - n + 1 + i)
		m.Tally[divergence.AgreeAllow] = allows
		for k := range newlyDenied {
			m.Count(divergence.NewlyDenied, uint64(k%keys))
		}
	}
	return list
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name    string
		minutes []divergence.Minute
		want    alarm
	}{
		{"nothing", nil, calm},
		{"all is well", minutesOf(15, 100, 1, 1), calm},
		{"at the cap with a block's requests", minutesOf(15, 90, 10, 3), holdOn},
		{"at the cap with too few requests", minutesOf(2, 90, 10, 3), calm},
		{"at the cap from two keys", minutesOf(15, 90, 10, 2), calm},
		{"twenty times the threshold", minutesOf(1, 36, 24, 3), rollBack},
		{"twenty times the threshold with too few requests", minutesOf(1, 18, 12, 3), calm},
		{"twenty times the threshold from two keys", minutesOf(15, 36, 24, 2), calm},
		{"long ago", minutesOf(40, 36, 24, 3)[:25], calm},
	}
	for _, tt := range tests {
		got, reason := guard(Config{}.WithDefaults(), tt.minutes, 1000)
		if got != tt.want || (reason == "") != (tt.want == calm) {
			t.Errorf("%s: alarm %d, %q, want %d", tt.name, got, reason, tt.want)
		}
	}
}

func TestChangeWindow(t *testing.T) {
	defaults := Config{}.WithDefaults().Change
	weekend := Config{Change: ChangeWindow{Days: []time.Weekday{time.Saturday}, Zone: "America/New_York"}}.WithDefaults().Change
	tests := []struct {
		name string
		w    ChangeWindow
		at   string
		want bool
	}{
		{"Monday morning", defaults, "2026-11-16T09:00:00Z", true},
		{"before nine", defaults, "2026-11-16T08:59:59Z", false},
		{"at four", defaults, "2026-11-16T16:00:00Z", false},
		{"just before four", defaults, "2026-11-16T15:59:59Z", true},
		{"Saturday", defaults, "2026-11-21T12:00:00Z", false},
		{"elsewhere it is Saturday, nine o'clock", weekend, "2026-11-21T14:00:00Z", true},
		{"elsewhere it is not nine yet", weekend, "2026-11-21T13:59:00Z", false},
	}
	for _, tt := range tests {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.w.Open(at); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What the gate says it could do is what it does, if all stays as it was.
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
		if m%59 != 0 && m < 47*minutesAnHour {
			continue // judging takes a while
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
