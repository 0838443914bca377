package stages

import (
	"testing"
	"time"
)

func TestChangeWindow(t *testing.T) {
	defaults := Config{}.WithDefaults().Change
	weekend := ChangeWindow{Days: []time.Weekday{time.Saturday}, Zone: "America/New_York"}.withDefaults()

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

func TestChangeWindowOpensNext(t *testing.T) {
	defaults := Config{}.WithDefaults().Change
	early := ChangeWindow{Days: []time.Weekday{time.Sunday}, From: 150 * time.Minute, To: 4 * time.Hour, Zone: "Europe/Berlin"}
	skipped := early
	skipped.To = 3 * time.Hour

	tests := []struct {
		name     string
		w        ChangeWindow
		at, want string // want is "" where it does not open
	}{
		{"open now", defaults, "2026-11-16T09:00:00Z", "2026-11-16T09:00:00Z"},
		{"later today", defaults, "2026-11-16T08:59:59Z", "2026-11-16T09:00:00Z"},
		{"tomorrow", defaults, "2026-11-16T16:00:00Z", "2026-11-17T09:00:00Z"},
		{"after the weekend", defaults, "2026-11-20T16:00:00Z", "2026-11-23T09:00:00Z"},
		{"where clocks are put forward", early, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"in the hour that is left out, so a week later", skipped, "2026-03-28T12:00:00Z", "2026-04-05T00:30:00Z"},
		{"in an unknown zone", ChangeWindow{Zone: "Mars"}.withDefaults(), "2026-11-16T09:00:00Z", ""},
		{"on no day", ChangeWindow{To: time.Hour, Zone: "UTC"}, "2026-11-16T09:00:00Z", ""},
	}
	for _, tt := range tests {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}

		var got string
		if next, ok := tt.w.NextOpen(at); ok {
			got = next.Format(time.RFC3339)
		}
		if got != tt.want {
			t.Errorf("%s: opens at %q, want %q", tt.name, got, tt.want)
		}
	}
}
