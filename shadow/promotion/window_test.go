package promotion

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
